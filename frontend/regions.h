// If, Loop and Scan that are decided while the program runs become regions of the IR. Those that are decided
// at compile time are copied into the program (unroll.h).
#pragma once

#include "frontend/unroll.h"

namespace braid::frontend {

// Returns the outputs of an If whose condition is known only at run time, without names. Throws BR0119 if its
// branches give different types or sizes, BR0115 if they give a value that is no tensor.
std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body);

// The same for a Loop. Any value may decide how often it runs, unless results are joined. Then their size
// `joined_count` must follow from sizes, and the condition of the body must be true. Throws BR0119 if the
// type or the sizes of a carried value change, BR0116 if the number of joined elements depends on values.
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
