// Outputs that share the memory of inputs, as requested with --alias OUT=IN.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace braid::frontend {

// Gives graph output `output` the storage of graph input `input`. UserError kAlias if one of them does not
// exist, their types or element positions differ, or the input is read after the output is written.
void add_alias(ir::Schedule& schedule, const std::string& output, const std::string& input);

}  // namespace braid::frontend
