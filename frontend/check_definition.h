// Holds a node whose inputs are known to the definition of its operator.
#pragma once

#include <onnx/onnx_pb.h>

#include "frontend/op_context.h"

namespace braid::frontend {

// Checks a node against its schema: which attributes there are (attribute_rules.h), which types each input
// may have, and which inputs have one type. Throws kInvalidAttribute, kInvalidNode or kTypeMismatch.
// Operators that ONNX does not know, such as those of plug-ins, have no schema and pass.
void check_definition(const onnx::NodeProto& node, OpContext& context);

}  // namespace braid::frontend
