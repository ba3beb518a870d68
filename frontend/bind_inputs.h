// Makes constants of graph inputs: those whose values the compiler needs, and those that the user fixes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "frontend/dims.h"
#include "frontend/import.h"
#include "frontend/load.h"
#include "ir/tensor.h"

namespace braid::frontend {

using InputValues = std::map<std::string, ir::Tensor>;  // by name of the graph input

// Turns the graph inputs named in `bound` into initializers with their values. Their declarations stay, so
// check_declarations() compares types and sizes.
void bind_inputs(Model& model, const InputValues& values, const std::set<std::string>& bound);

// Does the same for all inputs in `fixed` (ImportOptions), and fixes the dimensions that their declarations
// name: adds them to `dims`, or narrows their bounds. Throws UserError BR0313 for a name that is no input, a
// value of another type or shape, and a size outside of the bounds.
void fix_inputs(Model& model, const FixedInputs& fixed, DimBounds& dims);

// The graph inputs from which `value` is computed, also through branches of control flow.
std::set<std::string> inputs_behind(const Model& model, const std::string& value);

}  // namespace braid::frontend
