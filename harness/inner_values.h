// Finds the first node of a model whose value deviates from a reference; `verify` prints it after outputs
// that differ.
//
// The model is compiled again with every inner value as an output, by the same passes and for the same
// target. The values are compared in the order of the nodes. Nodes whose values are stored may be fused
// otherwise than in the program itself, so the deviation may be gone.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "harness/compare.h"
#include "harness/program.h"

namespace braid::harness {

struct InnerDeviation {
  std::string value, node,
      op;  // `node` of the model, or the operation of a text; `op`: its operator, if it is ONNX's
  int rank = 0;
  Difference difference;
  std::string worst;  // worst_text of compare.h
};

struct InnerComparison {
  std::size_t compared = 0;  // values, up to the first that differs; outputs of the model not counted
  std::optional<InnerDeviation> first;
};

struct InnerReference {
  bool onnxruntime = false;  // otherwise the interpreter
  std::function<Difference(const ir::Tensor& result, const ir::Tensor& expected)> compare;
  std::function<bool(const ir::Tensor& result, const Difference& difference)> agrees;
};

// `options` are those of the model; `inputs` are per rank. UserErrors of compiling and running, for instance
// of a model too large to keep all values.
InnerComparison compare_inner_values(const CompileOptions& options, const ExecuteOptions& execution,
                                     const RankTensors& inputs, const InnerReference& reference);

}  // namespace braid::harness
