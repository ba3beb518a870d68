// A plan as ONNX's annotations for several devices, which annotations.h reads.
#pragma once

#include "frontend/load.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/plan.h"

namespace braid::frontend::sharding {

// Writes a complete plan as annotations of the configuration "braid" into the plain model of the graph, every input and output stated. Names of
// devices say their places on a mesh with names. UserError kAnnotationForm names the tensor whose state they cannot express:
// pending where it is read, padded, in unequal blocks, split as the program takes or returns it.
void annotate(Model& model, const Graph& graph, const MeshPlan& plan);

}  // namespace braid::frontend::sharding
