// ONNX's annotations for several devices, from IR version 11 on (ModelProto.configuration, NodeProto.device_configurations): read
// as lines of a plan that must hold, and written from a plan. docs/sharding.md says what each field means here.
//
// A device is the rank of that number. What a node states of an input or an output is obeyed:
//
//   an input is stated      the node takes it so
//   an output is stated     the node computes it so if its rule can, and whoever reads it without a statement takes it so
//   an input is missing     as its producer states it, or what the producer's rule gives; whole if the program is given it; a
//                           constant has any state
//   an output is missing    what the rule gives; a pending sum is reduced at once
//
// Nodes that state nothing are solved by the search, also where it must choose between several results of a rule.
#pragma once

#include "frontend/load.h"
#include "frontend/sharding/apply.h"
#include "frontend/sharding/configuration.h"
#include "frontend/sharding/graph.h"
#include "frontend/sharding/plan.h"

namespace braid::frontend::sharding {

// The lines that the annotations of the graph's nodes fix. UserErrors: kAnnotation for what is malformed, does not fit its tensor,
// or contradicts itself or the rules, with tensor, axis and devices; kAnnotationForm for what no program of Braid's can do.
Plan annotated_lines(const Graph& graph, const DeviceConfiguration& configuration);

// Writes a plan as annotations of the configuration "braid" into the plain model of the graph. UserError kAnnotationForm names the
// tensor whose state they cannot express: pending where it is read, in unequal blocks, split as the program takes or returns it.
void annotate(Model& model, const Graph& graph, const ResolvedPlan& plan, int ranks);

}  // namespace braid::frontend::sharding
