// Random programs for tests of passes: loops, reductions, GEMMs, views, parts of larger tensors, mutations,
// collectives whose start, wait and release lie apart (also blocking, coalesced, in place, on the halves of
// one buffer), nodes that stay together, over 1 to 4 ranks, with dynamic dimensions.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::test {

struct RandomProgram {
  ir::Schedule schedule;
  std::map<std::string, std::int64_t> dims;     // actual sizes, within bounds
  std::vector<std::vector<ir::Tensor>> inputs;  // per rank, in the order of Graph::inputs
};

// `steps`: about how many operations. Values are small integers.
RandomProgram random_program(std::uint64_t seed, int steps);

// A random order that keeps all dependencies: what any reordering pass may do.
bool shuffle_nodes(ir::Schedule& schedule, std::uint64_t seed);

// Each fused node point by point of its outer space, in random order of points: the definition in
// ir/fused_loops.h. The result is for the interpreter only (one buffer is written by many operations).
void unroll_fused(ir::Schedule& schedule, const std::map<std::string, std::int64_t>& dims,
                  std::uint64_t seed);

}  // namespace braid::test
