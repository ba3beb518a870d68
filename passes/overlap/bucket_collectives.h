// Merges collectives of one kind, communicator and reduction into coalesced ones of at most a given size.
//
// Greedy in schedule order, like the *_fx bucketing of PyTorch's Inductor. A collective that depends on a
// bucket closes it and begins the next, so no collective is excluded permanently. The merged collective
// stands where its last part was ready: run a pass that moves communication after this one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct BucketCollectives {
  static constexpr std::string_view kName = "bucket_collectives";
  static constexpr std::string_view kDescription = "merges collectives up to a size";
  static constexpr bool kMayReorderCollectives = true;

  double cap_mb = 100;  // 1e6 bytes
  bool all_gather = true;
  bool reduce_scatter = true;
  bool all_reduce = true;
  bool mixed_dtypes = true;

  static std::vector<PassOption<BucketCollectives>> options() {
    return {{"cap_mb", &BucketCollectives::cap_mb, "size of a bucket, MB"},
            {"all_gather", &BucketCollectives::all_gather, "bucket all-gathers"},
            {"reduce_scatter", &BucketCollectives::reduce_scatter, "bucket reduce-scatters"},
            {"all_reduce", &BucketCollectives::all_reduce, "bucket all-reduces"},
            {"mixed_dtypes", &BucketCollectives::mixed_dtypes, "operands of several types in one bucket"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
