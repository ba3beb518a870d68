// Nodes whose results nothing needs.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/check_structure.h"
#include "frontend/load.h"

namespace braid::frontend {

// How often each value of a graph is read, also by the bodies of its nodes; graph outputs count once.
using Uses = std::unordered_map<std::string, int>;

// Which nodes of the graph an output or an effect (OpSpec::effect) depends on, and the uses of what these read.
std::vector<bool> live_nodes(const onnx::GraphProto& graph, const Opsets& opsets, Uses& uses);

// Leaves out all others, of the model's graph and of bodies in it, and then the initializers of unsupported types. Calls of the model's
// functions stay if one of these has an effect. UserError kUnsupportedType for an initializer that is read.
void drop_dead_nodes(Model& model, const Opsets& opsets);

}  // namespace braid::frontend
