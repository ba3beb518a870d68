// The graph that the splitter searches (split/graph.h), of an ONNX model.
#pragma once

#include "frontend/lower_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/graph.h"

namespace braid::frontend::sharding {

struct Rule;

// `facts` must be those of the same model. Nodes and values are those of the model's own graph. The graph points into the model and has
// expressions of the schedule from which the facts are.
Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts);

// Of a node of such a graph: the model's node, and its rule; nullptr: none.
const onnx::NodeProto& proto_of(const GraphNode& node);
const Rule* rule_of(const GraphNode& node);

}  // namespace braid::frontend::sharding
