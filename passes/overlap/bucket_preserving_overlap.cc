#include "passes/overlap/bucket_preserving_overlap.h"

#include "passes/overlap/bucketing.h"

namespace braid::passes {

using namespace analysis;

bool BucketPreservingOverlap::run(ir::Schedule& schedule, PassContext& context) {
  BucketRules rules{all_gather, reduce_scatter, all_reduce, mixed_dtypes, {}};
  rules.cap = [this](const CollectiveShape&) { return static_cast<std::int64_t>(cap_mb * 1e6); };
  return bucket(kName, schedule, context, rules, {.keep_makespan = true, .tries = static_cast<int>(tries)});
}

}  // namespace braid::passes
