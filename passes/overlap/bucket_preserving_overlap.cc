#include "passes/overlap/bucket_preserving_overlap.h"

#include "passes/overlap/bucketing.h"
#include "passes/overlap/simulator.h"

namespace braid::passes {

bool BucketPreservingOverlap::run(ir::Schedule& schedule, PassContext& context) {
  BucketRules rules{all_gather, reduce_scatter, all_reduce, mixed_dtypes, {}};
  rules.cap = [this](const CollectiveShape&) { return static_cast<std::int64_t>(cap_mb * 1e6); };
  const auto time_of = [&](const ir::Schedule& s) {
    const Problem problem = make_problem(s, *context.costs);
    return simulate_makespan(problem, identity_order(problem.size()));
  };
  return bucket(
      kName, schedule, context, rules,
      [&](const ir::Schedule& before, const ir::Schedule& merged) {
        return time_of(merged) <= time_of(before);
      },
      static_cast<int>(tries));
}

}  // namespace braid::passes
