// Makes the graph that the splitter searches (split/graph.h) from an ONNX model.
#pragma once

#include "frontend/lower_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/graph.h"

namespace braid::frontend::sharding {

struct Rule;

// `facts` must be those of the same model. Nodes and values are those of the model's own graph. The graph
// points into the model and has expressions of the schedule that the facts are from.
Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts);

// The model's node of a node of such a graph, and its rule.
const onnx::NodeProto& proto_of(const GraphNode& node);
const Rule& rule_of(const GraphNode& node);

}  // namespace braid::frontend::sharding
