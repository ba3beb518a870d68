// Writes a plan as ONNX's annotations for several devices, which annotations.h reads.
#pragma once

#include "frontend/load.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/plan.h"

namespace braid::frontend::sharding {

// Writes a complete plan as annotations of the configuration "braid" into the plain model of the graph. Every
// input and output is stated. On a mesh with names, names of devices say their places. Throws UserError
// kAnnotationForm, with the tensor, for states that annotations cannot express: pending where it is read,
// padded, in unequal blocks, or split as the program takes or returns it.
void annotate(Model& model, const Graph& graph, const MeshPlan& plan);

}  // namespace braid::frontend::sharding
