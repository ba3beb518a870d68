// The order in which a splitter sees the nodes of a model.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace braid::frontend::sharding {

// Puts the nodes in the order in which the outputs need them, as models are written: nodes that the first
// output needs, input by input, then the other nodes that the second one needs, and so on. Names and the
// order of the file decide nothing. Nodes that no output needs come last.
void order_by_outputs(onnx::GraphProto& graph);

// Collects the names that the bodies of a node's control flow read. Names of the bodies' own values may be
// among them; they do no harm.
void collect_captured(const onnx::NodeProto& node, std::set<std::string>& names);

}  // namespace braid::frontend::sharding
