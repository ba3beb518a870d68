// Pipeline stages of a plain model: runs of its nodes, in their order, each split over the ranks of one axis.
// They are searched and priced; programs of several stages are not generated. Free of ONNX, for the driver.
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
  std::string plan;  // its lines: states of its own values, and of values that it takes from other stages
  analysis::Time compute;   // nodes and conversions, one after another
  analysis::Time transfer;  // what it sends to the next stage
  std::int64_t bytes = 0;   // of a rank: weights, inputs and the most that is held at once
  std::int64_t sent = 0;    // by a rank, a step
};
struct FoundStages {
  int stages = 1, ranks = 1;     // the ranks of each stage
  std::vector<FoundStage> each;  // empty: no cut keeps the limit, or there are fewer nodes
  analysis::Time longest;        // the longest stage, with what it sends
  // The same if all stages had the plan that is the cheapest for the whole model; 0: no cut keeps the limit.
  analysis::Time shared;
  std::string excluded;  // why there are none; empty if there are some
};

// Cuts into `stages` stages of `ranks` ranks each, and finds a plan for each stage. Tensors that pass a cut
// are sent as they are produced, from stage to stage, and converted where they are read.
//
// The first cuts are those of the cheapest plan of the whole model on these ranks. They are exact over all
// cuts for models of up to 2000 nodes, and over the 2000 cuts with the fewest bytes for larger ones. Then
// each stage gets the plan that is the cheapest for it alone, with what it sends, from the first stage to the
// last. The cuts are made again for these plans, and so on as long as the longest stage becomes shorter. So
// the result is never longer than with one plan for all, but it need not be the shortest.
//
// Uses these options: memory, lines that are kept, and annotations, which must be for as many ranks as a
// stage has. Throws UserError BR0482 and those of annotations.
FoundStages find_stages(const Graph& graph, int stages, int ranks,
                        const std::shared_ptr<const analysis::CostModel>& costs,
                        const SearchOptions& options);

}  // namespace braid::split
