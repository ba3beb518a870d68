// Nodes whose results nothing needs.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/check_structure.h"
#include "frontend/load.h"

namespace braid::frontend {

// How often each value of a graph is read, also by the bodies of its nodes; graph outputs count once.
using Uses = std::unordered_map<std::string, int>;

// Returns which nodes of the graph an output or an effect (OpSpec::effect) depends on. Counts in `uses` the
// readers of the values that they read, graph outputs included.
std::vector<bool> live_nodes(const onnx::GraphProto& graph, const Opsets& opsets, Uses& uses);

// Drops all other nodes of the model's graph and of bodies in it, and functions that no node calls. Calls of
// the model's functions stay if one of these functions has an effect. Throws kUnsupportedType if an
// initializer of an unsupported type is still read.
void drop_dead_nodes(Model& model, const Opsets& opsets);

// Drops graph inputs that nothing reads and whose types are not supported: strings, sequences, optional
// values. `note` receives a note for each; may be null.
void drop_unread_inputs(Model& model, const Opsets& opsets,
                        const std::function<void(const std::string& text)>& note);

}  // namespace braid::frontend
