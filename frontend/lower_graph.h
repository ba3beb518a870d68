// Lowers a normalised model node by node.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/check.h"
#include "frontend/dims.h"
#include "frontend/value.h"
#include "ir/schedule.h"

namespace braid::frontend {

// What lowering found out about the values of a model's own graph: sizes also where ONNX infers none. The expressions
// belong to the schedule that lower_graph returned with them.
struct ValueFacts {
  ir::DType dtype = ir::DType::f32;
  std::vector<ir::Expr> sizes;
  std::optional<Tensor> constant;    // bytes known at compile time
  std::optional<Elements> elements;  // integers known at compile time, possibly as expressions
  bool from_sizes = false;           // floats that are computed from sizes
  bool tensor = true;                // false: a sequence or an optional value
};
struct GraphFacts {
  std::unordered_map<std::string, ValueFacts> values;  // those that a live node reads or computes
  std::vector<bool> live;                              // by node
};

struct LowerOptions {
  DimBounds dims;
  int ranks = 1;
  bool keep_values = false;  // ImportOptions
  // Receives the facts if it is not null; attention is then lowered as it is spelled out, so that all values have some.
  GraphFacts* facts = nullptr;
};

ir::Schedule lower_graph(const Model& model, const Opsets& opsets, const InferredTypes& types,
                         const DeclaredTypes& declared, const LowerOptions& options);

}  // namespace braid::frontend
