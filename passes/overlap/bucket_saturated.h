// Merges collectives up to the size that saturates the network (saturation_bytes of the machine) and not
// further: larger buckets save nothing and are ready later.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct BucketSaturated {
  static constexpr std::string_view kName = "bucket_saturated";
  static constexpr std::string_view kDescription =
      "merges collectives up to the size that saturates the network";
  static constexpr bool kMayReorderCollectives = true;

  double factor = 1;
  bool all_gather = true;
  bool reduce_scatter = true;
  bool all_reduce = true;
  bool mixed_dtypes = true;

  static std::vector<PassOption<BucketSaturated>> options() {
    return {{"factor", &BucketSaturated::factor, "multiple of the saturation size"},
            {"all_gather", &BucketSaturated::all_gather, "bucket all-gathers"},
            {"reduce_scatter", &BucketSaturated::reduce_scatter, "bucket reduce-scatters"},
            {"all_reduce", &BucketSaturated::all_reduce, "bucket all-reduces"},
            {"mixed_dtypes", &BucketSaturated::mixed_dtypes, "operands of several types in one bucket"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
