// Random programs of collectives: all kinds and forms over random groups, sizes, types and reductions,
// several in flight, with arithmetic between them. Their results are exact in every type, and defined on
// every rank, so that each engine must find the interpreter's bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::test {

struct RandomCollectivesOptions {
  int collectives = 200;
  int ranks = 0;      // at least 2; 0: 2 to 8, at random
  bool nccl = false;  // only what NCCL has (docs/errors.md, BR0641)
};

struct RandomCollectives {
  std::string text;                             // IR, to be printed when something fails
  ir::Schedule schedule;                        // parsed, before all passes
  std::vector<std::vector<ir::Tensor>> inputs;  // per rank
};

RandomCollectives random_collectives(std::uint64_t seed, const RandomCollectivesOptions& options = {});

// Empty, or the first difference of two numbers: "rank 2, output y7, element 3: ...".
std::string difference(const ir::Graph& graph, const std::vector<std::vector<ir::Tensor>>& got,
                       const std::vector<std::vector<ir::Tensor>>& want);

}  // namespace braid::test
