#include "passes/overlap/bucket_saturated.h"

#include "analysis/costs/collective_model.h"
#include "passes/overlap/bucketing.h"

namespace braid::passes {

using namespace analysis;

bool BucketSaturated::run(ir::Schedule& schedule, PassContext& context) {
  BucketRules rules{all_gather, reduce_scatter, all_reduce, mixed_dtypes, {}};
  rules.cap = [&](const CollectiveShape& shape) {
    return static_cast<std::int64_t>(factor *
                                     static_cast<double>(saturation_bytes(context.costs->machine(), shape)));
  };
  return bucket(kName, schedule, context, rules);
}

}  // namespace braid::passes
