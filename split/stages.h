// Pipeline stages of a plain model: its nodes, in their order, cut into runs of which each is split over the ranks of one axis. Searched and
// priced; programs of several stages are not generated. Free of ONNX, for the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "split/candidates.h"

namespace braid::split {

struct FoundStage {
  std::string first, last;  // nodes
  int nodes = 0, split = 0, collectives = 0;
  std::string plan;         // its lines: what it computes, and how it takes what comes from other stages
  analysis::Time compute;   // nodes and conversions, one after another
  analysis::Time transfer;  // what it sends to the next stage
  std::int64_t bytes = 0;   // of a rank: weights, inputs and the most that is held at once
  std::int64_t sent = 0;    // by a rank, a step
};
struct FoundStages {
  int stages = 1, ranks = 1;     // of each stage
  std::vector<FoundStage> each;  // empty: no cut keeps the limit, or there are fewer nodes
  analysis::Time longest;        // stage, with what it sends
  analysis::Time
      shared;  // the same if all stages had the plan that is the cheapest for the whole model; 0: no cut keeps the limit
  std::string excluded;  // why there are none; empty if there are
};

// Cuts into `stages` stages of so many ranks each, and a plan for each stage. What passes a cut is sent as it is produced, from stage to stage,
// and converted where it is read.
//
// The first cuts are those of the cheapest plan of the whole model on these ranks, exact over all cuts of models of up to 2000 nodes and over
// the 2000 that the fewest bytes pass of larger ones. Then each stage gets the plan that is the cheapest for it alone, with what it
// sends, from the first stage to the last; the cuts are made again for these plans; and so on as long as the longest stage becomes
// shorter. So the result is never longer than with one plan for all, but others may be shorter.
//
// Of the options count memory, lines that are kept, and annotations, which must be for as many ranks as a stage has. UserErrors BR0482 and
// those of annotations.
FoundStages find_stages(const Graph& graph, int stages, int ranks,
                        const std::shared_ptr<const analysis::CostModel>& costs,
                        const SearchOptions& options);

}  // namespace braid::split
