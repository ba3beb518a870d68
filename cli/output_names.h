#pragma once

#include <string>
#include <vector>

#include "cli/execute.h"

namespace braid::cli {

// A name for each output that is a file's name as well; if two become one, the later one gets a number.
std::vector<std::string> output_names(const ProgramInterface& table);

}  // namespace braid::cli
