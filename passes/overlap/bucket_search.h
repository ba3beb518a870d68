// Decides which collectives braid_schedule merges: searches for the set with which the graph, in its best
// order, has the shortest makespan.
//
// Every trial is a merge on a copy of the schedule and a search for its order (order_search.h), judged by the
// simulated makespan within the memory cap. The sets are greedy buckets in schedule order. A bucket is full
// when latency has fallen to a given share of its time (a half, a fifth, ...). The best set is then tried
// without each of its parts, which undoes exposed buckets.
#pragma once

#include "analysis/costs/cost_model.h"
#include "passes/overlap/trial_search.h"

namespace braid::passes {

struct BucketSearchOptions {
  bool channel_order = false;  // as in ProblemOptions
  int tries = 16;              // at most
};

// Replaces `best` by a schedule with merged collectives if that is shorter, or as short with fewer starts.
// Returns whether it did. `full`: the options of the final search for the winner's order.
bool search_buckets(Scheduled& best, const analysis::CostModel& costs, const OrderSearchOptions& full,
                    const BucketSearchOptions& options);

}  // namespace braid::passes
