// Random programs: loops, reductions, GEMMs, views, parts of larger tensors, mutations, collectives whose
// start, wait and release lie apart (also blocking, coalesced, in place, on the halves of one buffer), nodes
// that stay together, over 1 to 4 ranks, with dynamic dimensions.
#pragma once

#include <cstdint>
#include <map>
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

}  // namespace braid::test
