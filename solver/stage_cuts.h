// Cuts a chain of nodes into pipeline stages such that the longest stage is as short as possible. Knows
// neither ONNX nor machines.
//
//   nodes      0  1  2 | 3  4 | 5  6      a stage is a run of nodes, in the order of the chain
//   passes           ->|    ->|           tensors computed before a cut and read after it, stage to stage
//
// A stage takes the sum of its nodes, of what they share (the conversions that its nodes read, once) and of
// sending the tensors that pass the cut at its end. Exact: dynamic programming over all cuts, O(stages *
// nodes^2).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "solver/problem.h"

namespace braid::solver {

using ChainNodeId = ir::Id<struct ChainNodeTag>;  // StageChain::nodes

struct StageChain {
  // Weights, inputs of the program and conversions, which a stage has once if any of these nodes is in it.
  struct Shared {
    Cost cost = 0;
    std::int64_t bytes = 0;
    std::vector<ChainNodeId> readers;  // ascending, distinct, at least one
  };
  IdVector<ChainNodeId, Cost> nodes;         // the time of each node alone
  IdVector<ChainNodeId, std::int64_t> live;  // bytes that are held while a node runs, without what is shared
  // Bytes that pass the cut before each node; that of the first node is ignored.
  IdVector<ChainNodeId, std::int64_t> passing;
  IdVector<ChainNodeId, char> may_cut;  // whether there may be a cut before each node
  std::vector<Shared> shared;
};

struct StageCuts {
  struct Stage {
    ChainNodeId begin{0}, end{0};
    Cost compute = 0, transfer = 0;
    std::int64_t bytes = 0;  // weights, inputs and the most that is held at once
    std::int64_t sent = 0;
    Cost cost() const { return compute + transfer; }
    bool has(ChainNodeId node) const { return begin <= node && node < end; }
  };
  std::vector<Stage> stages;
  Cost longest = 0;
};

// The time to send so many bytes from a stage to the next one.
using StageTransfer = std::function<Cost(int stage, std::int64_t bytes)>;

// Among all cuts into `stages` stages, each with at least one node and at most `memory` bytes, returns the
// cuts with the shortest longest stage; of these, those with the least transfers in all; of these, the
// earliest. Returns nullopt if there are none.
std::optional<StageCuts> cut_stages(const StageChain& chain, int stages, const StageTransfer& transfer,
                                    std::optional<std::int64_t> memory = std::nullopt);

}  // namespace braid::solver
