// The facts about one ONNX value while its graph is lowered.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/tensor.h"
#include "ir/lowering.h"

namespace braid::frontend {

using Elements = ir::KnownElements;
// first, first + step, ... in row-major order.
struct Progression {
  ir::Expr first = 0;
  std::int64_t step = 1;
};
// Larger tensors are not propagated.
inline constexpr std::int64_t kMaxElements = 4096;

// Floats that are computed from sizes (size_fractions.h).
struct Fraction {
  ir::Expr numerator = 0;
  std::int64_t denominator = 1;  // positive
};
struct Fractions {
  std::vector<std::int64_t> sizes;
  std::vector<Fraction> values;  // row-major
};

// Constant numbers of 2, 4 or 8 bits, with the scale and zero point by which DequantizeLinear makes an f32
// matrix of them. Products may take them packed.
struct QuantisedMatrix {
  Tensor x, scale;
  std::optional<Tensor> zero;
  int axis = 0;  // along which scales differ; unused for a single scale
  std::int64_t block =
      0;  // of numbers along the axis that share a scale; 0: each index of the axis has its own
  bool transposed = false;  // the matrix is the transpose of x
};

struct Value {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<ir::Expr> sizes;
  std::optional<Tensor> constant;  // bytes known at compile time
  // Integers known at compile time, possibly as expressions, also over the rank's coordinates.
  std::optional<Elements> elements;
  std::optional<Progression> progression;  // the integers of a constant that differs between ranks
  std::optional<Fractions> fractions;      // floats computed from sizes, beside the tensor itself
  ir::TensorBox box;                       // made on first use
  std::vector<ir::TensorBox> columns;      // if known: the parts of size 1 along the last axis that it joins
  std::optional<QuantisedMatrix> quantised;  // the constants that make the matrix, beside the matrix itself
  int uses = 0;                              // nodes that read it, and graph outputs

  // A sequence has elements instead of a type and sizes, an empty optional nothing at all; an optional that
  // holds a value is this value.
  std::optional<std::vector<Value>> sequence;
  bool empty_optional = false;
};

// Returns the elements of an integer or bool tensor with at most kMaxElements, if they are equal on all ranks
// or follow from the rank's coordinates. Computed once.
const std::optional<Elements>& elements_of(Value& value);

// The tensor itself: constants and elements become tensors of the graph here. Single values are inlined.
ir::TensorBox box_of(Value& value, ir::Lowering& lowering);

// A tensor filled with one literal.
ir::TensorBox fill(ir::Lowering& lowering, std::vector<ir::Expr> sizes, ir::DType dtype, ir::Literal literal);

using Values = std::unordered_map<std::string, Value>;

}  // namespace braid::frontend
