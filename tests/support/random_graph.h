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

// Outputs that are no memory of their own: column-major, the input itself, a part of it, and one value twice.
inline constexpr const char* kOutputsToCopy = R"(graph main
dim n in [0, 5]
input %x: f32[n, 3]
%y: f32[n, 3] output strides [1, n] = pointwise { %0 = load %x %1 = add %0, %0 store %1 at i0 + i1 * n }
%z: f32[n, 3] strides [1, n] = pointwise { %0 = load %x %1 = neg %0 store %1 at i0 + i1 * n }
buffer %t: f32[3, n] in %x strides [1, 3]
output %y
output %z
output %t
output %x as "same"
output %z as "twice"
)";

struct RandomProgram {
  ir::Schedule schedule;
  std::map<std::string, std::int64_t> dims;     // actual sizes, within bounds
  std::vector<std::vector<ir::Tensor>> inputs;  // per rank, in the order of Graph::inputs
};

// `steps`: about how many operations. Values are small integers.
RandomProgram random_program(std::uint64_t seed, int steps);

}  // namespace braid::test
