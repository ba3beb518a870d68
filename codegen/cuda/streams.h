// Assigns units to streams and places the events between the two streams.
//
// The compute stream runs kernels and the communication stream runs collectives, both in schedule order. An
// edge between them is needed exactly where one accesses memory after the other and one of the two writes:
//
//   compute -> communication   before a collective: the last kernel that touched any range which the
//                              collective reads or writes, including previous tenants of the bytes
//   communication -> compute   before a kernel: the last collective that wrote what the kernel touches (its
//                              wait), or that reads what the kernel overwrites (its release)
//
// An edge implied by an earlier one is left out. The schedule's waits and releases need no code: the edge
// comes before the first kernel that needs it, which the verifier requires to follow them.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/cuda/memory.h"

namespace braid::codegen::cuda {

enum class UnitKind : std::uint8_t { compute, collective, nothing };  // nothing: waits and releases
UnitKind kind_of(const ir::Graph& graph, const Unit& unit);

enum class EdgeReason : std::uint8_t {
  before_collective,  // compute -> communication
  reads_result,       // communication -> compute: a kernel touches what the collective writes
  overwrites_input,   // communication -> compute: a kernel writes what the collective or a peer reads
};

struct StreamEdge {
  std::size_t from = 0, to = 0;  // units; `from` on one stream, `to` on the other
  EdgeReason reason = EdgeReason::before_collective;
  int event = -1;
};

// A fault planted by tests: an edge to leave out. `which` is its number among the edges with this reason.
struct PlantedFault {
  bool planted = false;
  EdgeReason reason = EdgeReason::before_collective;
  int which = 0;
};

struct StreamPlan {
  std::vector<StreamEdge> edges;        // in order of `to`
  std::vector<std::vector<int>> waits;  // per unit: events for which its stream waits before it
  std::vector<int> records;             // per unit: the event recorded after it, or -1
  int events = 0;
  bool collectives = false;
  int last_collective = -1;  // unit
  bool join = false;         // the last collective still has to be waited for at the end
};

StreamPlan plan_streams(const ir::Graph& graph, const std::vector<Unit>& units, const MemoryMap& memory,
                        const PlantedFault& fault = {});

}  // namespace braid::codegen::cuda
