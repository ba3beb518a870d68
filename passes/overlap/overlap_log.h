// BRAID_LOG=overlap: the order of the nodes around each pass that moves communication, on standard error.
//
//   == sink_waits: after (6.500 us)
//      0    class   kernel                 size             stride   name            ms
//      1    start   all_reduce @g 256 B    f32[64]          [1]      r          0.002000
//      2  | compute extern filler          f32[64]          [1]      filler     0.003000
//
// One bar per collective that is in flight while the node runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/schedule.h"
#include "passes/costs/cost_model.h"

namespace braid::passes {

// Wanted by the environment (a list separated by commas), and this is rank 0 or no rank.
bool overlap_log_wanted();

std::string overlap_log(std::string_view pass, std::string_view when, const ir::Schedule& schedule,
                        const CostModel& costs);

// Writes what `text` returns with `write`. Whatever goes wrong in either is swallowed: a log never stops a
// compilation.
void log_safely(const std::function<std::string()>& text,
                const std::function<void(const std::string&)>& write);

}  // namespace braid::passes
