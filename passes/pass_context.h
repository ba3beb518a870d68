// What a pass may ask for besides the schedule: costs, the memory cap, and where to say what it did.
//
// A pass that wants it has `bool run(ir::Schedule&, PassContext&)` instead of `bool run(ir::Schedule&)`.
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

namespace braid::passes {

struct PassContext {
  std::shared_ptr<const analysis::CostModel>
      costs;  // never null: the machine of the options, or the default one
  // Planned bytes that no pass of this run may exceed; one budget for the whole list. Absent: no cap.
  std::optional<std::int64_t> memory_cap;
  // Of the schedule as the last reordering pass left it; whoever changes it in another way drops it.
  std::shared_ptr<const analysis::OrderAnalysis> analysis;
  // Live peak of the schedule before the first pass that moved something under a budget; their common base.
  std::optional<std::int64_t> live_base;
  // One report per pass that makes reports, in the order in which they ran.
  std::vector<analysis::OverlapReport> reports;
  // What will execute the collectives. Absent: the engine that the machine's model prices.
  std::optional<CommEngine> engine;
  // Names of the starts whose kernel the user chose (passes/force_kernels.h).
  std::set<std::string> forced_kernels;
  // What select_kernels chose last, in the order of the starts.
  std::vector<KernelChoice> kernel_choices;

  PassContext();  // the default machine, no cap
};

// That of the context, if it still describes the schedule; else a new one, which it keeps.
std::shared_ptr<const analysis::OrderAnalysis> analyse(const ir::Schedule& schedule, PassContext& context,
                                                       const analysis::ProblemOptions& options);

}  // namespace braid::passes
