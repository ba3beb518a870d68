// The values of --bind.
#pragma once

#include <string>
#include <vector>

#include "frontend/import.h"

namespace braid::harness {

// Reads INPUT=VALUE: a number, true or false, nested lists of them such as [[1,2],[3,4]], or a file (.npy,
// .pb). Throws UserErrors: BR0003 for a malformed text or a name that is given twice, those of the file.
frontend::FixedInputs read_fixed_inputs(const std::vector<std::string>& texts);

}  // namespace braid::harness
