// Decides which collectives braid_schedule splits: searches for the set with which the graph, in its best
// order, has the shortest makespan.
//
// Splitting costs a latency per part and gains in two ways: a short urgent collective need not wait for a
// long one on its channel, and the user of a part need not wait for the whole. Candidates are exposed
// collectives, and those that run while an exposed one is ready to run (and delay it). Parts whose latency
// exceeds their transfer are never made. Every trial is judged as in bucket_search.h, by the simulated
// makespan of the best order within the memory cap. Only splits that shorten it are kept.
#pragma once

#include "passes/overlap/bucket_search.h"

namespace braid::passes {

struct SplitSearchOptions {
  bool channel_order = false;  // as in ProblemOptions
  int tries = 8;               // at most
};

// Replaces `best` by a schedule with split collectives if that is shorter. Returns whether it did. `full`:
// the options of the final search for the winner's order.
bool search_splits(Scheduled& best, const analysis::CostModel& costs, const OrderSearchOptions& full,
                   const SplitSearchOptions& options);

}  // namespace braid::passes
