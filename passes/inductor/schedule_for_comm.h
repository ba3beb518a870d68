// One greedy list scheduler with three goals: starts early, waits late, compute under what is in flight.
//
// Source: PyTorch, torch/_inductor/comms.py, _schedule_for_comm (second generation, 2024, #129980). The next
// node is the ready one with the smallest
//
//   ( raise:  index of the first collective that it blocks, none last
//   , sink:   1 if it is a wait or contains one, else 0
//   , position in the input )
//
// With `overlap`, ready compute whose cost covers the collective's comes right after each start. Nodes before
// a start (a cast, a copy into place) count as blocking it, so they rise with it; mutations and the channel
// policy are ordinary dependencies. Ignores memory: everything that can rises to the top. O(n log n).
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ScheduleForComm {
  static constexpr std::string_view kName = "schedule_for_comm";
  static constexpr std::string_view kDescription =
      "raises starts with what they need, sinks waits, fills collectives with compute: one list scheduler";

  bool raise = true;
  bool sink = true;
  bool overlap = true;

  static std::vector<PassOption<ScheduleForComm>> options() {
    return {{"raise", &ScheduleForComm::raise, "starts, and what they need, as early as possible"},
            {"sink", &ScheduleForComm::sink, "waits as late as possible"},
            {"overlap", &ScheduleForComm::overlap, "compute that covers its cost behind each start"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
