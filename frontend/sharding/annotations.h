// ONNX's annotations for several devices, from IR version 11 on (ModelProto.configuration, NodeProto.device_configurations), as lines of
// a plan that must hold. docs/sharding.md says what each field means here; annotate.h writes them.
//
// What a node states of an input or an output is obeyed:
//
//   an input is stated      the node takes it so
//   an output is stated     the node computes it so if its rule can, and whoever reads it without a statement takes it so
//   an input is missing     as its producer states it, or what the producer's rule gives; whole if the program is given it; a
//                           constant has any state
//   an output is missing    what the rule gives; a pending sum is reduced at once
//
// Nodes that state nothing are solved by the search, also where it must choose between several results of a rule.
#pragma once

#include "frontend/sharding/configuration.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split_names.h"
#include "split/fixed_lines.h"
#include "split/plan.h"

namespace braid::frontend::sharding {

// The lines that the annotations of the graph's nodes fix on a mesh of the configuration's devices. UserErrors: kAnnotation for what is
// malformed, does not fit its tensor, or contradicts itself or the rules, with tensor, axis and devices; kAnnotationForm for what
// no program on that mesh can do.
FixedLines annotated_lines(const Graph& graph, const DeviceConfiguration& configuration, const Mesh& mesh);

}  // namespace braid::frontend::sharding
