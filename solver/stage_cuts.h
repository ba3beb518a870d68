// A chain of nodes cut into pipeline stages: which cuts make the longest stage shortest. Knows neither ONNX nor machines.
//
//   nodes      0  1  2 | 3  4 | 5  6        a stage is a run of nodes, in the order of the chain
//   passes           ->|    ->|             what is computed before a cut and read behind it, from stage to stage
//
// A stage takes the sum of its nodes, of what it shares (the conversions that its nodes read, once) and of sending what passes the cut at
// its end. Exact: dynamic programming over all cuts, O(stages * nodes^2).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "solver/problem.h"

namespace braid::solver {

struct StageChain {
  // What a stage has once if any of these nodes is in it: weights, inputs of the program, conversions.
  struct Shared {
    Cost cost = 0;
    std::int64_t bytes = 0;
    std::vector<int> readers;  // ascending, distinct, at least one
  };
  std::vector<Cost> nodes;         // of each node alone
  std::vector<std::int64_t> live;  // bytes that are held while a node runs, but for what is shared
  std::vector<std::int64_t>
      passing;  // bytes that pass the cut before each node; that of the first one counts for nothing
  std::vector<char> may_cut;  // whether there may be a cut before each node
  std::vector<Shared> shared;
};

struct StageCuts {
  struct Stage {
    int begin = 0, end = 0;  // nodes
    Cost compute = 0, transfer = 0;
    std::int64_t bytes = 0;  // weights, inputs and the most that is held at once
    std::int64_t sent = 0;
    Cost cost() const { return compute + transfer; }
  };
  std::vector<Stage> stages;
  Cost longest = 0;
};

// The time to send so many bytes from a stage to the next one.
using StageTransfer = std::function<Cost(int stage, std::int64_t bytes)>;

// Of all cuts into so many stages, each of at least one node, in which no stage takes more bytes than `memory`: those with the shortest
// longest stage; of these the least transfers in all; of these the earliest cuts. nullopt: there are none.
std::optional<StageCuts> cut_stages(const StageChain& chain, int stages, const StageTransfer& transfer,
                                    std::optional<std::int64_t> memory = std::nullopt);

}  // namespace braid::solver
