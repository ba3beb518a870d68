// Which inputs a step overwrites: those that an operation mutates and those that are the memory of an output
// (a cache that grows in place). The caller's buffer has other contents after the step.
#pragma once

#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

// In the order of Graph::inputs.
std::vector<bool> written_inputs(const Schedule& schedule);

}  // namespace braid::ir
