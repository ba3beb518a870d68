// A program's communication with its peers: the starts and waits of its collectives in program order. A trace
// is small enough for a manifest and is all that `braid check` needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

struct TraceEvent {
  enum class Step : std::uint8_t { start, wait };
  Step step = Step::start;
  int start = -1;  // wait: index of its start in CollectiveTrace::events
  CollectiveKind kind = CollectiveKind::all_reduce;
  int group = 0;          // index into CollectiveTrace::groups
  int peer = -1;          // broadcast: root; send, recv: the other side; within the group
  bool blocking = false;  // complete when issued
  // All members must agree on these, besides kind and root: the reduction and the algorithm, or empty; then
  // type and number of elements of each operand. The payload must also be equal on both sides of a transfer.
  std::string reduce, algorithm;
  std::vector<std::string> payload;  // "f32 x 4*n", one for each operand
  std::string place;                 // offsets in the communication segment, where planned
  std::string repeat;                // "x trips" for each enclosing loop whose trip count is not constant
  std::string name;                  // of the operation
  std::vector<std::string> origins;  // ONNX nodes
  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

// The trace of one program, run by one rank or by all of them.
struct CollectiveTrace {
  std::string source;  // file or folder, for messages
  int ranks = 1;
  ChannelPolicy channels = ChannelPolicy::global;
  std::vector<CommGroup> groups;
  std::vector<TraceEvent> events;
};

// Repeated bodies with a constant trip count are unrolled, up to kMaxUnrolled events in all. For any other
// loop two iterations stand for all of them (`repeat` says so).
inline constexpr std::size_t kMaxUnrolled = 1'000'000;
CollectiveTrace collective_trace(const Schedule& schedule, std::string source);

// "all_reduce sum f32 x 64 'sum' (ONNX node /mlp/AllReduce)"
std::string describe(const TraceEvent& event);

}  // namespace braid::ir
