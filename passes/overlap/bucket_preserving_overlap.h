// Merges collectives up to a size if the simulated time does not grow: what was hidden stays hidden.
//
// Tries all buckets at once; if that is slower, halves of them, with at most `tries` simulations. The
// criterion is the makespan of the whole schedule under the simulator's own rules (order of completion on a
// channel, contention).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct BucketPreservingOverlap {
  static constexpr std::string_view kName = "bucket_preserving_overlap";
  static constexpr std::string_view kDescription = "merges collectives if the simulated time does not grow";
  static constexpr bool kMayReorderCollectives = true;

  double cap_mb = 500;  // 1e6 bytes
  std::int64_t tries = 128;
  bool all_gather = true;
  bool reduce_scatter = true;
  bool all_reduce = true;
  bool mixed_dtypes = true;

  static std::vector<PassOption<BucketPreservingOverlap>> options() {
    return {
        {"cap_mb", &BucketPreservingOverlap::cap_mb, "size of a bucket, MB"},
        {"tries", &BucketPreservingOverlap::tries, "maximum number of simulations"},
        {"all_gather", &BucketPreservingOverlap::all_gather, "bucket all-gathers"},
        {"reduce_scatter", &BucketPreservingOverlap::reduce_scatter, "bucket reduce-scatters"},
        {"all_reduce", &BucketPreservingOverlap::all_reduce, "bucket all-reduces"},
        {"mixed_dtypes", &BucketPreservingOverlap::mixed_dtypes, "operands of several types in one bucket"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
