// Models of one node each, in which every rule is proved: sizes that 2, 3 and 4 divide, and sizes of 0, 1 and
// 5 beside them.
#pragma once

#include <vector>

#include "tests/frontend/sharding/proof.h"

namespace braid::frontend::sharding {

std::vector<ProofCase> rule_cases();

}  // namespace braid::frontend::sharding
