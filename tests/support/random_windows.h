// Random convolutions, pools and recurrent layers with elementwise loops around them, as a frontend lowers
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/schedule.h"

namespace braid::test {

struct RandomWindows {
  ir::Schedule schedule;                     // one rank; not optimised
  std::map<std::string, std::int64_t> dims;  // a size for each dimension
};

// A chain of such operations on one image, in the type given, some of whose sizes are dynamic.
RandomWindows random_windows(std::uint64_t seed, ir::DType dtype = ir::DType::f32);

// One recurrent layer, with or without each optional part. A wide one has constant weights, f32, and enough
// columns for several threads.
RandomWindows random_recurrence(std::uint64_t seed, ir::DType dtype = ir::DType::f32, bool wide = false);

}  // namespace braid::test
