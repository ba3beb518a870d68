// Gives a pass access to more than the schedule: costs, the memory cap, and a place for its reports.
//
// A pass that needs it has `bool run(ir::Schedule&, PassContext&)` instead of `bool run(ir::Schedule&)`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "analysis/order_analysis.h"
#include "analysis/report.h"
#include "passes/kernel_choice.h"
#include "passes/target_kernels.h"

namespace braid::passes {

struct PassContext {
  std::shared_ptr<const analysis::CostModel>
      costs;  // never null: the machine of the options, or the default one
  // Planned bytes that no pass of this run may exceed; one budget for the whole list. Absent: no cap.
  std::optional<std::int64_t> memory_cap;
  // A program that takes longer than this is of no use. A pass that proves that every order takes longer may
  // leave the schedule as it is; it then sets `at_least` to a bound larger than this.
  std::optional<analysis::Time> useful;
  std::optional<analysis::Time> at_least;
  // The analysis of the schedule as the last reordering pass left it; passes that change the schedule in
  // another way reset this.
  std::shared_ptr<const analysis::OrderAnalysis> analysis;
  // Live peak of the schedule before the first pass with a budget; the common base of all budgets.
  std::optional<std::int64_t> live_base;
  // One report per pass that makes reports, in the order in which they ran.
  std::vector<analysis::OverlapReport> reports;
  // The engine that will execute the collectives. Absent: the one that the machine's model prices.
  std::optional<CommEngine> engine;
  TargetKernels kernels;
  // Names of the starts whose kernel the user chose (passes/force_kernels.h).
  std::set<std::string> forced_kernels;
  // The last choices of select_kernels, in the order of the starts.
  std::vector<KernelChoice> kernel_choices;
  // How many roundings drop_roundings has left out.
  std::size_t dropped_roundings = 0;

  PassContext();  // the default machine, no cap
};

// The analysis of the context if it still describes the schedule; else a new one, which the context keeps.
std::shared_ptr<const analysis::OrderAnalysis> analyse(const ir::Schedule& schedule, PassContext& context,
                                                       const analysis::ProblemOptions& options);

}  // namespace braid::passes
