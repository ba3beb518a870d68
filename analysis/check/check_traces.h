// Checks whether all ranks of a program start the same collectives, and whether they can wait for each other
// forever.
//
// The model. A collective begins when all its members have started it; then it completes. A rank goes through
// its trace in order. It blocks in a wait, or in the start of a blocking collective, until the collective has
// begun everywhere. It also blocks in a start while kInFlight earlier ones of the same communicator are
// unfinished. A channel is a queue of one rank: a collective begins on it after those before it have begun;
// the channel policy decides which collectives share a queue. A send meets its receive (nothing is buffered).
//
// This holds for every engine: one that buffers, or that has more queues than the policy requires, only waits
// less.
#pragma once

#include <string>
#include <vector>

#include "ir/collective_trace.h"

namespace braid::check {

// Numbers of its user errors (docs/errors.md).

// Communicator::kMaxInFlight of the runtime.
inline constexpr int kInFlight = 32;

// The proved facts, as `braid check` prints them.
struct Certificate {
  int ranks = 1;
  ir::ChannelPolicy channels = ir::ChannelPolicy::global;
  struct Line {
    std::string what;  // "group 'tp' (ranks 0 1)", "sends 0 -> 1 of group 'pp'"
    int collectives = 0;
    std::uint64_t hash = 0;  // of what all members do there; equal traces have equal hashes
  };
  std::vector<Line> lines;         // in order of first use by the lowest rank
  std::vector<std::string> order;  // names of the collectives, in an order in which all can begin
};

// `traces`: one that all ranks run, or one per rank. User errors:
//   BR0900 kRanksDisagree  with the first difference: group, position and what every rank does there
//   BR0901 kDeadlock       with a shortest cycle of waits: ranks, collectives, ONNX nodes
//   BR0902 kNotOneProgram  the traces cannot be the ranks of one program: their number, world sizes, policies
Certificate check_traces(const std::vector<ir::CollectiveTrace>& traces);

std::string to_string(const Certificate& certificate);

// Why ranks that all run this program disagree or wait for each other forever; empty if they cannot.
std::string fault_of_all_ranks(const ir::CollectiveTrace& trace);

}  // namespace braid::check
