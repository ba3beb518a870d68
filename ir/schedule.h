// A graph and the order in which it runs: what passes change and what the text format prints.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// The order in which the collectives of one rank are issued and completed: one attribute of a program, read
// by simulator, deadlock proof, code generator and manifest.
enum class ChannelPolicy : std::uint8_t {
  global,        // one issue order over all collectives of a rank
  communicator,  // one FIFO per communicator
  pair,          // one FIFO per pair of ranks
  edge,          // one FIFO per directed edge
};
std::string_view to_string(ChannelPolicy policy);

// A node of the schedule. single: one operation. fused: operations that one kernel computes. grouped: members
// that stay contiguous; they may be fused nodes.
struct ScheduleNode {
  enum class Kind : std::uint8_t { single, fused, grouped };
  Kind kind = Kind::single;
  std::string name;                   // fused and grouped; a single node is named after its operation
  OpId op;                            // single
  std::vector<ScheduleNode> members;  // fused and grouped, in order
  // grouped, at the top level: names of groups that must come earlier although no effect requires it (say,
  // one gather in flight at a time). Order only: removing such a group is harmless.
  std::vector<std::string> after = {};

  static ScheduleNode single(OpId op) { return {Kind::single, {}, op, {}, {}}; }
};
// The operations of a node, in order.
std::vector<OpId> ops_of(const ScheduleNode& node);

// Alignment of offsets in a plan: in the arena for vector loads, in the communication segment as NCCL
// requires of registered buffers.
inline constexpr std::int64_t kArenaAlignment = 64, kCommAlignment = 256;  // bytes

// Where every storage lies. Offsets and sizes in bytes, planned for the upper bounds of all dimensions.
enum class MemorySpace : std::uint8_t { arena, comm };
struct Placement {
  MemorySpace space = MemorySpace::arena;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int first_step = 0;  // index into Schedule::nodes: birth
  int last_step = 0;   // last touch (flight and release included)
  friend bool operator==(const Placement&, const Placement&) = default;
};
struct MemoryPlan {
  std::map<StorageId, Placement> placements;  // root storages of kind activation and comm
  std::int64_t arena_bytes = 0;
  std::int64_t comm_bytes = 0;
  std::int64_t live_peak_bytes = 0;  // arena + comm, before placement; <= planned bytes
  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

struct Schedule {
  Graph graph;
  std::vector<ScheduleNode> nodes;
  ChannelPolicy channels = ChannelPolicy::global;
  std::optional<MemoryPlan> plan;  // absent until planned; a pass that changes the order drops it
};

// Every operation in execution order (those inside regions belong to their RegionKernel and are not listed).
std::vector<OpId> execution_order(const Schedule& schedule);
// The same with the operations of regions, which follow their RegionKernel.
std::vector<OpId> nested_order(const Schedule& schedule);

}  // namespace braid::ir
