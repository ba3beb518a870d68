#include "frontend/sharding/work.h"

#include <algorithm>
#include <limits>

namespace braid::frontend::sharding {

namespace {

WorkOperand operand(const Graph& graph, int v, const SplitCosts& sizes) {
  if (v < 0) return {};
  const GraphValue& value = graph.values[static_cast<std::size_t>(v)];
  WorkOperand result{true};
  for (const ir::Expr& size : value.sizes) result.sizes.push_back(static_cast<double>(sizes.size(size)));
  if (value.elements && std::ranges::all_of(value.elements->values,
                                            [](const ir::Expr& element) { return element.is_constant(); })) {
    for (const ir::Expr& element : value.elements->values) result.ints.push_back(element.constant());
  }
  return result;
}

WorkNode work_node(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  WorkNode result{node.proto, node.version};
  for (const int v : node.inputs) result.inputs.push_back(operand(graph, v, sizes));
  for (const int v : node.outputs) {
    const bool read = v >= 0 && !graph.values[static_cast<std::size_t>(v)].readers.empty();
    result.outputs.push_back(operand(graph, read ? v : -1, sizes));
  }
  return result;
}

double flops_of(const WorkNode& counted, const Work& work) {
  return work.flops == nullptr ? 0 : work.flops(counted, work);
}

// A layer reads its recurrent weights at every step.
double times_read(const WorkNode& counted, const Work& work, std::size_t k) {
  if (static_cast<int>(k) == work.a) return work.passes;
  if (work.kind != WorkKind::recurrence || k != 2) return 1;
  return counted.input(0).size(counted.int_attribute("layout", 0) != 0 ? 1 : 0);
}

}  // namespace

double elements(const GraphValue& value, const SplitCosts& sizes) {
  double product = 1;
  for (const ir::Expr& size : value.sizes) product *= static_cast<double>(sizes.size(size));
  return product;
}

const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, int k) {
  if (k < 0 || k >= static_cast<int>(list.size())) return nullptr;
  const int v = list[static_cast<std::size_t>(k)];
  return v < 0 ? nullptr : &graph.values[static_cast<std::size_t>(v)];
}

double flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  return flops_of(work_node(graph, node, sizes), node.work);
}

double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  return node.work.exact ? flops(graph, node, sizes) : 0;
}

bool has_weights(const Graph& graph, const GraphNode& node) {
  return std::ranges::any_of(std::initializer_list{node.work.a, node.work.b, node.work.attends.weights},
                             [&](int k) {
                               const GraphValue* value = value_of(graph, node.inputs, k);
                               return value != nullptr && value->constant && value->rank() >= 2;
                             });
}

ir::KernelClass class_of(WorkKind kind) {
  using ir::KernelClass;
  switch (kind) {
    case WorkKind::product:
    case WorkKind::recurrence:
      return KernelClass::gemm;
    case WorkKind::convolution:
      return KernelClass::conv;
    case WorkKind::attention:
      return KernelClass::attention;
    case WorkKind::reduction:
    case WorkKind::softmax:
      return KernelClass::reduction;
    case WorkKind::gather:
    case WorkKind::scatter:
      return KernelClass::gather;
    case WorkKind::pointwise:
      return KernelClass::elementwise;
    case WorkKind::reorder:
    case WorkKind::repeat:
    case WorkKind::join:
    case WorkKind::select:
    case WorkKind::collective:
    case WorkKind::sizes:
    case WorkKind::view:
    case WorkKind::constant:
    case WorkKind::list:
    case WorkKind::control:
      break;
  }
  return KernelClass::copy;
}

NodeWork work_of(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  const Work& own = node.work;
  NodeWork result;
  result.kind = own.kind;
  result.asked = own.kind == WorkKind::product && has_weights(graph, node);
  const auto read = std::ranges::find_if(node.outputs, [&](int v) {
    return v >= 0 && !graph.values[static_cast<std::size_t>(v)].readers.empty();
  });
  if (is_free(own.kind) || read == node.outputs.end()) return result;
  const GraphValue& y = graph.values[static_cast<std::size_t>(*read)];
  if (y.moved_constant) return result;
  result.free = false;
  const GraphValue* typed = multiplies(own.kind) ? value_of(graph, node.inputs, own.a) : nullptr;
  result.dtype = typed != nullptr ? typed->dtype : y.dtype;
  const WorkNode counted = work_node(graph, node, sizes);
  result.flops = flops_of(counted, own);
  const auto bytes = [&](const std::vector<int>& list, std::size_t k) {
    return static_cast<double>(ir::size_of(value_of(graph, list, static_cast<int>(k))->dtype));
  };
  for (std::size_t k = 0; k < counted.outputs.size(); ++k) {
    if (counted.outputs[k].present)
      result.writes.emplace_back(k, counted.outputs[k].elements() * bytes(node.outputs, k));
  }
  const double most = is_fused(own.kind) || own.looks_up
                          ? std::max(counted.results(), counted.input(own.a).elements())
                          : std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < counted.inputs.size(); ++k) {
    if (!counted.inputs[k].present) continue;
    const double read_elements = std::min(counted.inputs[k].elements() * times_read(counted, own, k), most);
    result.reads.emplace_back(k, read_elements * bytes(node.inputs, k));
  }
  if (own.passed_on != nullptr) result.passed_on = own.passed_on(counted, own);
  if (own.tables != nullptr) result.tables = own.tables(counted, own);
  return result;
}

}  // namespace braid::frontend::sharding
