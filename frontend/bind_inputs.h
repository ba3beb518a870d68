// Makes constants of graph inputs whose values the compiler needs.
#pragma once

#include <map>
#include <set>
#include <string>

#include "frontend/load.h"
#include "ir/tensor.h"

namespace braid::frontend {

using InputValues = std::map<std::string, ir::Tensor>;  // by name of the graph input

// Turns the graph inputs named in `bound` into initializers with their values. Their declarations stay, so
// check_declarations() compares types and sizes.
void bind_inputs(Model& model, const InputValues& values, const std::set<std::string>& bound);

// The graph inputs from which `value` is computed, also through branches of control flow.
std::set<std::string> inputs_behind(const Model& model, const std::string& value);

}  // namespace braid::frontend
