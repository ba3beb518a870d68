// Outputs in the memory of inputs, as the user asks for with --alias OUT=IN.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace braid::frontend {

// Makes the storage of graph output `output` the same as that of graph input `input`. UserError kAlias where
// one of them does not exist, types differ, an element would not lie at the same place in both, or the input
// is read after the output is written.
void add_alias(ir::Schedule& schedule, const std::string& output, const std::string& input);

}  // namespace braid::frontend
