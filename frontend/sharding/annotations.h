// Reads ONNX's annotations for several devices, from IR version 11 on (ModelProto.configuration,
// NodeProto.device_configurations), as lines of a plan that must hold. docs/sharding.md says what each field
// means here; annotate.h writes them.
//
// Statements of a node about its inputs and outputs are obeyed:
//
//   an input is stated     the node takes it so
//   an output is stated    the node computes it so if its rule can; readers without a statement take it so
//   an input is missing    as its producer states it, or as the producer's rule gives it; whole if the
//                          program is given it; a constant has any state
//   an output is missing   as the rule gives it; a pending sum is reduced at once
//
// The search chooses for nodes that state nothing, and between several results of a rule.
#pragma once

#include "frontend/sharding/configuration.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/fixed_lines.h"
#include "split/plan.h"

namespace braid::frontend::sharding {

// Returns the lines that the annotations of the graph's nodes fix on a mesh of the configuration's devices.
// Throws UserErrors: kAnnotation if one is malformed, does not fit its tensor, or contradicts itself or the
// rules, with tensor, axis and devices; kAnnotationForm for states that no program on that mesh can have.
FixedLines annotated_lines(const Graph& graph, const DeviceConfiguration& configuration, const Mesh& mesh);

}  // namespace braid::frontend::sharding
