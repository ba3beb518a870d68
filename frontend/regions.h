// If and Loop that are decided while the program runs become regions of the IR. Those that are decided while compiling are
// copied into the program (unroll.h).
#pragma once

#include "frontend/unroll.h"

namespace braid::frontend {

// The values of the outputs of an If whose condition is known only at run time, without names. BR0119: its branches give
// different types or sizes; BR0115: they give something that is no tensor.
std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body);

// The same for a Loop without results to be joined: how often it runs may depend on any value. BR0119: the type or the sizes of
// what it carries change.
std::vector<Value> loop_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body);

}  // namespace braid::frontend
