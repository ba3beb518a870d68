#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/codegen_cuda/cases.h"

namespace braid::test {

struct PlanFaultCase {
  std::string name;
  std::function<ir::Schedule()> build;
  std::vector<Edit> edits;
  std::vector<std::string> finding;  // what one finding has to say, in this order
};
const std::vector<PlanFaultCase>& plan_fault_cases();

}  // namespace braid::test
