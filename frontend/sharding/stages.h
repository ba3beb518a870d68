// Pipeline stages of a plain model: its nodes, in their order, cut into runs of which each is split over the ranks of one axis. Searched and
// priced; programs of several stages are not generated. Free of ONNX, for the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"

namespace braid::frontend::sharding {

struct Graph;

struct FoundStage {
  std::string first, last;  // nodes
  int nodes = 0;
  analysis::Time compute;   // nodes and conversions, one after another
  analysis::Time transfer;  // what it sends to the next stage
  std::int64_t bytes = 0;   // of a rank: weights, inputs and the most that is held at once
  std::int64_t sent = 0;    // by a rank, a step
};
struct FoundStages {
  int stages = 1, ranks = 1;     // of each stage
  std::vector<FoundStage> each;  // empty: no cut keeps the limit, or there are fewer nodes
  analysis::Time longest;        // stage, with what it sends
};

// Cuts into `stages` stages of so many ranks each. All stages have the states of the cheapest plan of the whole model on these ranks; what
// passes a cut is sent as it is produced, from stage to stage, and converted where it is read. `memory`: the bytes that a rank has. Exact
// over all cuts of that plan of models of up to 2000 nodes; of larger ones over the 2000 cuts that the fewest bytes pass.
FoundStages find_stages(const Graph& graph, int stages, int ranks,
                        const std::shared_ptr<const analysis::CostModel>& costs,
                        std::optional<std::int64_t> memory);

}  // namespace braid::frontend::sharding
