// Lowers a normalised model node by node. This is also how types and sizes are inferred: there is no other
// inference.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/check_structure.h"
#include "frontend/dims.h"
#include "frontend/measured_sizes.h"
#include "frontend/value.h"
#include "ir/schedule.h"

namespace braid::frontend {

// The facts that lowering finds about the values of a model's own graph. The expressions belong to the
// schedule that lower_graph returned with them.
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
  // Graph inputs that have room to grow: their capacities (ir/capacity.h).
  std::map<std::string, std::vector<std::int64_t>> capacities = {};
  // Receives the facts if it is not null. Attention is then lowered as it is spelled out, so that all its
  // values have facts.
  GraphFacts* facts = nullptr;
  MeasureOptions measure = {};  // of sizes that only the data of a step tell
  // Receives a note for each declared type or size that differs from the actual one; may be null.
  std::function<void(const std::string& text)> note = {};
};

// Throws UserErrors for all mistakes in a node: attributes and types against its definition
// (check_definition.h), sizes, unsupported forms. One error (kUnsupportedOperators) names all nodes whose
// element types are not implemented. The model's declarations of values that nodes compute decide nothing.
ir::Schedule lower_graph(const Model& model, const Opsets& opsets, const LowerOptions& options);

// Returns the nodes that take the place of a node, given the values of its inputs (null: absent, or computed
// from a node that cannot be lowered); nullopt: the node stays.
using Rewrite = std::function<std::optional<std::vector<onnx::NodeProto>>(
    const onnx::NodeProto& node, const std::function<const Value*(const std::string&)>& value)>;
// Replaces nodes of the model's graph, in order, and their replacements in turn, until `rewrite` returns
// nullopt for all. Nodes that nothing needs are dropped.
void rewrite_nodes(Model& model, const Opsets& opsets, const DimBounds& dims, int ranks,
                   const Rewrite& rewrite);

}  // namespace braid::frontend
