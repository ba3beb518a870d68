#include "split/work.h"

#include <algorithm>
#include <limits>

namespace braid::split {

namespace {

Operand operand(const Graph& graph, ValueId v, const SplitCosts& sizes) {
  if (!v.valid()) return {};
  const GraphValue& value = graph.values[v];
  Operand result{true};
  for (const ir::Expr& size : value.sizes) result.sizes.push_back(static_cast<double>(sizes.size(size)));
  if (value.elements && std::ranges::all_of(value.elements->values,
                                            [](const ir::Expr& element) { return element.is_constant(); })) {
    for (const ir::Expr& element : value.elements->values) result.ints.push_back(element.constant());
  }
  return result;
}

Operands operands(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  Operands result;
  for (const ValueId v : node.inputs) result.inputs.push_back(operand(graph, v, sizes));
  for (const ValueId v : node.outputs) {
    const bool read = v.valid() && !graph.values[v].readers.empty();
    result.outputs.push_back(operand(graph, read ? v : ValueId{}, sizes));
  }
  return result;
}

// A layer reads its recurrent weights at every step.
double times_read(const Operands& counted, const WorkFacts& work, int k) {
  if (k == work.a) return work.passes;
  return work.steps < 0 || k != 2 ? 1 : counted.input(0).size(work.steps);
}

}  // namespace

double elements(const GraphValue& value, const SplitCosts& sizes) {
  double product = 1;
  for (const ir::Expr& size : value.sizes) product *= static_cast<double>(sizes.size(size));
  return product;
}

const GraphValue* value_of(const Graph& graph, const std::vector<ValueId>& list, int k) {
  if (k < 0 || k >= count_of(list)) return nullptr;
  return list[k].valid() ? &graph.values[list[k]] : nullptr;
}

double flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  return node.operation->flops(operands(graph, node, sizes));
}

double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  return node.work.exact ? flops(graph, node, sizes) : 0;
}

bool has_weights(const Graph& graph, const GraphNode& node) {
  return std::ranges::any_of(std::initializer_list{node.work.a, node.work.b, node.work.weights}, [&](int k) {
    const GraphValue* value = value_of(graph, node.inputs, k);
    return value != nullptr && value->constant && value->rank() >= 2;
  });
}

NodeWork work_of(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  const WorkFacts& own = node.work;
  NodeWork result;
  result.kind = own.kind;
  result.asked = own.kind == WorkKind::product && has_weights(graph, node);
  const auto read = std::ranges::find_if(
      node.outputs, [&](ValueId v) { return v.valid() && !graph.values[v].readers.empty(); });
  if (is_free(own.kind) || read == node.outputs.end()) return result;
  const GraphValue& y = graph.values[*read];
  if (y.moved_constant) return result;
  result.free = false;
  const GraphValue* typed = multiplies(own.kind) ? value_of(graph, node.inputs, own.a) : nullptr;
  result.dtype = typed != nullptr ? typed->dtype : y.dtype;
  const Operands counted = operands(graph, node, sizes);
  result.flops = node.operation->flops(counted);
  const auto bytes = [&](const std::vector<ValueId>& list, int k) {
    return static_cast<double>(ir::size_of(value_of(graph, list, k)->dtype));
  };
  for (int k = 0; k < count_of(counted.outputs); ++k) {
    if (counted.outputs[k].present)
      result.writes.emplace_back(k, counted.outputs[k].elements() * bytes(node.outputs, k));
  }
  const double most = is_fused(own.kind) || own.looks_up
                          ? std::max(counted.results(), counted.input(own.a).elements())
                          : std::numeric_limits<double>::infinity();
  for (int k = 0; k < count_of(counted.inputs); ++k) {
    if (!counted.inputs[k].present) continue;
    const double read_elements = std::min(counted.inputs[k].elements() * times_read(counted, own, k), most);
    result.reads.emplace_back(k, read_elements * bytes(node.inputs, k));
  }
  result.passed_on = node.operation->passed_on(counted);
  result.tables = node.operation->tables(counted);
  return result;
}

}  // namespace braid::split
