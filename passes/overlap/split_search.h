// Which collectives braid_schedule splits: the set after which the graph, put in its best order, ends first.
//
// Splitting costs a latency per part and gains in two ways: a short urgent collective need not wait behind a
// long one on its channel, and who needs a part need not wait for the whole. So the candidates are
// collectives that run while one that is exposed is ready to run (those in its way), and exposed ones; parts
// whose latency is larger than their transfer are never made. Every trial is judged as in bucket_search.h, by
// the simulated makespan of the best order within the memory cap; what does not end earlier is not kept.
#pragma once

#include "passes/overlap/bucket_search.h"

namespace braid::passes {

struct SplitSearchOptions {
  bool channel_order = false;  // as in ProblemOptions
  int tries = 8;               // at most
};

// Replaces `best` by a schedule with split collectives if that ends earlier. True if it did. `full`: how the
// winner's order is searched for in the end.
bool search_splits(Scheduled& best, const analysis::CostModel& costs, const OrderSearchOptions& full,
                   const SplitSearchOptions& options);

}  // namespace braid::passes
