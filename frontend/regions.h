// If, Loop and Scan that are decided while the program runs become regions of the IR. Those that are decided while compiling are
// copied into the program (unroll.h).
#pragma once

#include "frontend/unroll.h"

namespace braid::frontend {

// The values of the outputs of an If whose condition is known only at run time, without names. BR0119: its branches give
// different types or sizes; BR0115: they give something that is no tensor.
std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body);

// The same for a Loop. How often it runs may depend on any value, unless results are joined: then their size `joined_count` must
// follow from sizes, and the condition of the body must be true. BR0119: the type or the sizes of what it carries change;
// BR0116: the number of joined elements depends on values.
std::vector<Value> loop_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                    const std::optional<ir::Expr>& joined_count);

// A Scan over `count` elements of each scanned tensor.
struct ScanAtRunTime {
  struct Axis {
    std::int64_t axis = 0;  // of an input: from 0; of an output: as written
    bool backwards = false;
  };
  ir::Expr count;
  std::vector<ir::TensorBox> states, scanned;
  std::vector<Axis> inputs, outputs;
};
std::vector<Value> scan_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                    const ScanAtRunTime& scan);

}  // namespace braid::frontend
