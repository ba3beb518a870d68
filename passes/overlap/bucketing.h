// Which collectives of a schedule go into one bucket: the common part of the bucketing passes.
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

// Builds buckets greedily in schedule order. Each collective joins the open bucket of its key if there is
// room and neither depends on the other. Otherwise it closes that bucket and opens the next, so no collective
// is skipped permanently.
std::vector<Bucket> greedy_buckets(const ir::Schedule& schedule, const analysis::Problem& problem,
                                   const analysis::CostModel& costs, const BucketRules& rules);

struct BucketTrials {
  bool keep_makespan = false;  // buckets that lengthen the simulated time are refused
  int tries = 256;             // maximum number of merges that are tried
};

// Finds buckets, merges them, and adds an OverlapReport even if nothing was merged. Sets of buckets that are
// refused, or that would form a cycle, are tried in halves. If the context has a cap, sets that exceed it are
// refused too.
bool bucket(std::string_view pass, ir::Schedule& schedule, PassContext& context, const BucketRules& rules,
            const BucketTrials& trials = {});

}  // namespace braid::passes
