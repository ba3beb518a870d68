// If, Loop and Scan that are decided while the program runs become regions of the IR. Those that are decided
// at compile time are copied into the program (unroll.h).
#pragma once

#include <map>
#include <utility>

#include "frontend/unroll.h"
#include "ir/error.h"

namespace braid::frontend {

// Branches that cannot be lowered, and why, by the number of the If in the order of lowering and its
// condition. A step that takes one fails.
using FailingBranches = std::map<std::pair<int, bool>, ir::UserError>;

// Thrown when a branch cannot be lowered. The graph then has parts of it, so its lowering starts again with
// one more failing branch.
struct BranchFails {
  int number;
  bool condition;
  ir::UserError error;
};

// Returns the outputs of an If whose condition is known only at run time, without names. Throws BR0119 if its
// branches give different types or sizes, BR0115 if they give a value that is no tensor, BranchFails, and the
// error of a branch if both fail.
std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                      int number, const FailingBranches& failing);

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
