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

// A result whose sizes differ between the branches of an If: both write its elements, row-major, into memory
// for `elements` of them, and the step measures the sizes that differ, which have capacities.
struct UnequalResult {
  std::int64_t elements = 0;
  std::vector<std::optional<std::int64_t>> capacities;  // by axis
};
// Facts about branches that lowering finds out, by the number of the If in the order of lowering.
struct BranchFacts {
  FailingBranches failing;
  using UnequalResults = std::map<std::pair<int, int>, UnequalResult>;  // by the number and the result
  UnequalResults unequal;
  // Unequal results that this lowering has found. It goes on as if sizes were equal, to find the others.
  // The graph is then wrong, so the lowering starts again.
  mutable UnequalResults found;
};

// Thrown when a branch cannot be lowered. The graph then has parts of it, so its lowering starts again.
struct BranchFails {
  int number;
  bool condition;
  ir::UserError error;
};

// Returns the outputs of an If whose condition is known only at run time, without names. Throws BR0119 if
// its branches give different types or ranks, or different sizes where none can be measured, BR0115 if
// they give a value that is no tensor, BranchFails, and the error of a branch if both fail.
std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                      int number, const BranchFacts& facts);

// The elements for which results that join one of each iteration have room.
struct JoinedRoom {
  ir::Expr count;
  // The capacity of their size, where a run tells it: where the condition of the body is not always true, or
  // `limited`. Then the loop stops after `count` iterations, one more than the capacity, which is an error.
  std::int64_t capacity = 0;
  bool limited = false;
};

// The same for a Loop. Any value may decide how often it runs. With results that are joined, `joined`
// says for how many iterations there is room. Throws BR0119 if the type or the sizes of a carried value
// change.
std::vector<Value> loop_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                    const std::optional<JoinedRoom>& joined);
// The name of the size of joined results, for --capacity: that of the first of them.
std::string joined_name(const onnx::NodeProto& node, OpContext& c);

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
