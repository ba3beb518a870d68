#include "frontend/sharding/work.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace braid::frontend::sharding {

namespace {

double size_at(const GraphValue& value, int from_end, const SplitCosts& sizes) {
  if (value.rank() < from_end) return 1;
  return static_cast<double>(sizes.size(value.sizes[static_cast<std::size_t>(value.rank() - from_end)]));
}

}  // namespace

WorkKind work_kind(const std::string& op) {
  static const std::unordered_map<std::string_view, WorkKind> kinds = [] {
    const std::pair<WorkKind, std::vector<std::string_view>> lists[] = {
        {WorkKind::view, {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Size"}},
        {WorkKind::product,
         {"MatMul", "Gemm", "Einsum", "MatMulNBits", "MatMulInteger", "QLinearMatMul", "FusedMatMul",
          "FusedGemm", "MatMulIntegerToFloat"}},
        {WorkKind::convolution, {"Conv", "ConvTranspose", "FusedConv", "ConvInteger", "QLinearConv"}},
        {WorkKind::attention,
         {"Attention", "MultiHeadAttention", "GroupQueryAttention", "PackedMultiHeadAttention"}},
        {WorkKind::movement,
         {"Transpose", "Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "ScatterElements",
          "ScatterND", "TensorScatter", "Pad", "Expand", "Tile"}}};
    std::unordered_map<std::string_view, WorkKind> all;
    for (const auto& [kind, ops] : lists)
      for (const std::string_view op : ops) all.emplace(op, kind);
    return all;
  }();
  if (const auto known = kinds.find(op); known != kinds.end()) return known->second;
  const bool reduces = op.starts_with("Reduce") || op.find("Norm") != std::string::npos ||
                       op.find("Softmax") != std::string::npos || op == "CumSum" || op == "TopK" ||
                       op.starts_with("Arg") || op.find("Pool") != std::string::npos;
  return reduces ? WorkKind::reduction : WorkKind::pointwise;
}

double elements(const GraphValue& value, const SplitCosts& sizes) {
  double product = 1;
  for (const ir::Expr& size : value.sizes) product *= static_cast<double>(sizes.size(size));
  return product;
}

const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, std::size_t k) {
  return k < list.size() && list[k] >= 0 ? &graph.values[static_cast<std::size_t>(list[k])] : nullptr;
}

double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  const std::string& op = node.proto->op_type();
  const GraphValue* a = value_of(graph, node.inputs, 0);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (a == nullptr || y == nullptr || (op != "MatMul" && op != "Gemm")) return 0;
  int reduced = 1;
  for (const onnx::AttributeProto& attribute : node.proto->attribute()) {
    if (op == "Gemm" && attribute.name() == "transA" && attribute.i() != 0) reduced = 2;
  }
  return 2 * elements(*y, sizes) * size_at(*a, reduced, sizes);
}

bool has_weights(const Graph& graph, const GraphNode& node) {
  for (std::size_t k = 0; k < std::min<std::size_t>(node.inputs.size(), 2); ++k) {
    const GraphValue* value = value_of(graph, node.inputs, k);
    if (value != nullptr && value->constant && value->rank() >= 2) return true;
  }
  return false;
}

double flops(const Graph& graph, const GraphNode& node, WorkKind kind, const SplitCosts& sizes) {
  const GraphValue* a = value_of(graph, node.inputs, 0);
  const GraphValue* b = value_of(graph, node.inputs, 1);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (a == nullptr || y == nullptr) return 0;
  const std::string& op = node.proto->op_type();
  if (kind == WorkKind::product) {
    if (const double exact = exact_flops(graph, node, sizes); exact > 0) return exact;
    if (op == "Einsum" && b != nullptr) {
      const double all =
          std::sqrt(elements(*a, sizes)) * std::sqrt(elements(*b, sizes)) * std::sqrt(elements(*y, sizes));
      return 2 * all / (b->rank() > 2 ? std::sqrt(size_at(*y, y->rank(), sizes)) : 1.0);
    }
    return 2 * elements(*y, sizes) * size_at(*a, 1, sizes);
  }
  if (kind == WorkKind::convolution && b != nullptr) {
    const bool transposed = op == "ConvTranspose";
    const double filters = size_at(*b, transposed ? b->rank() - 1 : b->rank(), sizes);
    return 2 * elements(transposed ? *a : *y, sizes) * elements(*b, sizes) / std::max(filters, 1.0);
  }
  if (kind == WorkKind::attention) {
    double keys = b != nullptr ? size_at(*b, 2, sizes) : size_at(*a, 2, sizes);
    for (std::size_t k = 3; k < node.inputs.size(); ++k) {  // a cache of earlier keys
      const GraphValue* past = value_of(graph, node.inputs, k);
      if (past != nullptr && past->rank() == 4)
        keys = std::max(keys, size_at(*past, 2, sizes) + (b ? size_at(*b, 2, sizes) : 0));
    }
    return 4 * elements(*y, sizes) * keys;
  }
  return 0;
}

}  // namespace braid::frontend::sharding
