// BRAID_LOG=overlap prints the order of the nodes before and after each pass that moves communication to
// standard error.
//
//   == sink_waits: after (6.500 us)
//      0    class   kernel                 size             stride   name            ms
//      1    start   all_reduce @g 256 B    f32[64]          [1]      r          0.002000
//      2  | compute extern filler          f32[64]          [1]      filler     0.003000
//
// There is one bar for each collective in flight while the node runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/costs/cost_model.h"
#include "ir/schedule.h"
#include "passes/runner.h"

namespace braid::explain {

// An observer (RunOptions::observers) that writes the log of a run. nullopt unless BRAID_LOG, a
// comma-separated list, contains `overlap`, and on all ranks but 0. User error BR0012: another topic.
std::optional<std::function<void(const passes::PassRun&)>> overlap_log_observer();

std::string overlap_log(std::string_view pass, std::string_view when, const ir::Schedule& schedule,
                        const analysis::CostModel& costs);

// Passes the result of `text` to `write`. Exceptions of both are ignored: a log never stops a compilation.
void log_safely(const std::function<std::string()>& text,
                const std::function<void(const std::string&)>& write);

}  // namespace braid::explain
