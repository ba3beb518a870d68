#include "passes/plan_memory.h"

#include <fmt/format.h>

#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "passes/pass_context.h"

namespace braid::passes {

using namespace ir;
using namespace analysis;

namespace {
MemoryOptions options_of(const PlanMemory& p) {
  return {p.in_place, p.in_place_collective_bytes, p.arena_alignment, p.comm_alignment, p.exact_limit};
}
}  // namespace

bool PlanMemory::run(Schedule& schedule, PassContext& context) {
  const bool changed = run(schedule);
  const MemoryPlan& plan = *schedule.plan;
  if (context.memory_cap && plan.arena_bytes + plan.comm_bytes > *context.memory_cap) {
    const MemoryModel model(schedule, options_of(*this));
    check_cap(schedule, model, identity_order(nodes_of(schedule)), *context.memory_cap);
  }
  return changed;
}

bool PlanMemory::run(Schedule& schedule) {
  // The verifier and generated code rely on these alignments.
  for (const auto& [alignment, least] :
       {std::pair{arena_alignment, kArenaAlignment}, {comm_alignment, kCommAlignment}}) {
    if (alignment < least || (alignment & (alignment - 1)) != 0) {
      user_error(
          errors::kBadPassOption, {},
          fmt::format("alignment must be a power of two of at least {} bytes, got {}", least, alignment));
    }
  }
  const MemoryModel model(schedule, options_of(*this));
  MemoryPlan plan = model.plan(identity_order(nodes_of(schedule)));
  if (schedule.plan == plan) return false;
  schedule.plan = std::move(plan);
  return true;
}

}  // namespace braid::passes
