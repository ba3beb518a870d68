// Named dimensions of a model's inputs and the bounds that users give them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/load.h"
#include "ir/expr.h"

namespace braid::frontend {

using DimBounds = std::map<std::string, ir::Bounds>;

// Names unnamed dimensions of graph inputs (INPUT_AXIS), replaces dimensions with equal bounds by their value
// in inputs, outputs and value_infos, and checks the rest. Adds to `bounds` those that follow from the
// others, of names like "past + 1". Throws a UserError for an input without type or shape or with a type that
// the IR lacks, a dimension without bounds, and bounds that are reversed, negative or for an unknown
// dimension.
void resolve_dims(Model& model, DimBounds& bounds);

// Bounds for the names without any: `fallback`, or, for a name like "past + 1", what follows from the others.
DimBounds default_dims(const std::set<std::string>& names, const DimBounds& given, ir::Bounds fallback);

// The names of the model's dimensions that accept bounds.
std::set<std::string> dimension_names(Model model);

// The sizes of a graph input after resolve_dims.
std::vector<ir::Expr> input_sizes(const onnx::ValueInfoProto& input, const DimBounds& bounds,
                                  ir::Graph& graph);

// Graph inputs that are not initializers.
std::vector<const onnx::ValueInfoProto*> true_inputs(const Model& model);

}  // namespace braid::frontend
