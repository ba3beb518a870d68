// Which collectives braid_schedule merges: the set after which the graph, put in its best order, ends first.
//
// Every trial is a merge on a copy of the schedule and a search for its order (order_search.h), judged by the
// simulated makespan within the memory cap. Sets to try are greedy buckets in the order of the schedule, full
// where latency has fallen to a given share of their time (a half, a fifth, ...); the best set is then tried
// without each of its parts, so that buckets that are exposed are undone.
#pragma once

#include "analysis/costs/cost_model.h"
#include "passes/overlap/trial_search.h"

namespace braid::passes {

struct BucketSearchOptions {
  bool channel_order = false;  // as in ProblemOptions
  int tries = 16;              // at most
};

// Replaces `best` by a schedule with merged collectives if that ends earlier, or as early with fewer starts.
// True if it did. `full`: how the winner's order is searched for in the end.
bool search_buckets(Scheduled& best, const analysis::CostModel& costs, const OrderSearchOptions& full,
                    const BucketSearchOptions& options);

}  // namespace braid::passes
