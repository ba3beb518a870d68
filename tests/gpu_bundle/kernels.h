// Programs of one kernel each, large enough to be timed. A GPU check compares them with the bandwidth of a
// copy, or the peak of products, of the same run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "tests/gpu_bundle/bundle_case.h"

namespace braid::test {

struct TimedKernel {
  std::string name;
  std::function<ir::Schedule()> build;  // not planned
  Sizes small, large;                   // checked, timed
};
std::vector<TimedKernel> timed_kernels();

}  // namespace braid::test
