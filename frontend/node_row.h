// The row of a node's operator (op_registry.h).
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "frontend/check_structure.h"
#include "frontend/op_registry.h"

namespace braid::frontend {

// "" is ONNX's own, also where the model writes "ai.onnx".
std::string domain_of(const onnx::NodeProto& node);
// The version of the node's domain that is in force; 1 if the model does not import the domain.
int version_of(const onnx::NodeProto& node, const Opsets& opsets);
// nullptr: none.
const OpSpec* row_of(const onnx::NodeProto& node, const Opsets& opsets);

}  // namespace braid::frontend
