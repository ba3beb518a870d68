// The order in which a splitter sees the nodes of a model.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace braid::frontend::sharding {

// Puts the nodes in the order in which the outputs need them: what the first output needs, input by input, then what the second one needs
// beside that, as models are written. It follows from what the graph computes: names and the order of the file decide nothing. Nodes
// that no output needs come last.
void order_by_outputs(onnx::GraphProto& graph);

// The names that the bodies of a node's control flow read; own names of the bodies do no harm.
void collect_captured(const onnx::NodeProto& node, std::set<std::string>& names);

}  // namespace braid::frontend::sharding
