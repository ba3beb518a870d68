// Which collectives of a schedule go into one bucket: what the bucketing passes have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "passes/overlap/merge_collectives.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct BucketRules {
  bool all_gather = true, reduce_scatter = true, all_reduce = true;
  bool mixed_dtypes = true;
  // Bytes at which a bucket of collectives of this shape is full.
  std::function<std::int64_t(const analysis::CollectiveShape&)> cap;
};

// Greedy, in schedule order: every collective goes into the open bucket of its key if that has room and
// neither depends on the other; else it opens a new one. Nothing is skipped for good: one that does not fit
// closes the bucket and begins the next.
std::vector<Bucket> greedy_buckets(const ir::Schedule& schedule, const analysis::Problem& problem,
                                   const analysis::CostModel& costs, const BucketRules& rules);

struct BucketTrials {
  bool keep_makespan = false;  // buckets that make the simulated time longer are refused
  int tries = 256;             // merges that are tried at most
};

// Finds buckets, merges them, and adds an OverlapReport, also where nothing was merged. Sets of buckets that
// would close a circle, or that are refused, are tried in halves. With a cap in the context, what exceeds it
// is refused as well.
bool bucket(std::string_view pass, ir::Schedule& schedule, PassContext& context, const BucketRules& rules,
            const BucketTrials& trials = {});

}  // namespace braid::passes
