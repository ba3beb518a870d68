// From a file to the program: load, check, normalise, lower.
#pragma once

#include <optional>

#include "driver/compile_options.h"
#include "driver/split.h"
#include "ir/schedule.h"

namespace braid {

// Imports the model, or parses the text of the IR. With a split, the program is that of one rank. Throws the
// UserErrors of the import and of the parser; kIllegalProgram for a text that is no legal program.
ir::Schedule import_program(const CompileOptions& options, std::optional<ChosenSplit> split);

}  // namespace braid
