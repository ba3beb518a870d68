#include "frontend/sharding/machine_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "frontend/sharding/work.h"

namespace braid::frontend::sharding {

using analysis::KernelClass;

namespace {

Cost picoseconds(double us) { return static_cast<Cost>(std::llround(us * 1e6)); }

KernelClass class_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::product:
      return KernelClass::gemm;
    case WorkKind::convolution:
      return KernelClass::conv;
    case WorkKind::attention:
      return KernelClass::attention;
    case WorkKind::reduction:
      return KernelClass::reduction;
    case WorkKind::movement:
      return KernelClass::copy;
    case WorkKind::view:
    case WorkKind::pointwise:
      break;
  }
  return KernelClass::elementwise;
}

Cost node_cost(const analysis::CostModel& costs, const Graph& graph, const GraphNode& node,
               const Strategy& strategy, int ranks, const SplitCosts& sizes) {
  const WorkKind kind = kind_of(node);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (kind == WorkKind::view || y == nullptr) return 0;
  const bool fused = kind == WorkKind::pointwise || kind == WorkKind::movement;
  analysis::KernelWork work;
  work.kernel_class = class_of(kind);
  work.dtype = y->dtype;
  work.flops = flops(graph, node, kind, sizes) / (strategy.letter >= 0 ? ranks : 1);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.outputs, k);
        value != nullptr && !value->readers.empty())
      work.bytes += local_bytes(*value, strategy.outputs[k], sizes, ranks);
  }
  for (std::size_t k = 0; !fused && k < node.inputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.inputs, k); value != nullptr)
      work.bytes += local_bytes(*value, strategy.inputs[k], sizes, ranks);
  }
  return picoseconds(roofline(costs.machine(), work).us() + (fused ? 0 : costs.machine().launch_us));
}

std::function<std::int64_t(const ir::Expr&)> size_with(
    const std::shared_ptr<const analysis::CostModel>& costs) {
  return [costs](const ir::Expr& size) { return costs->value(size); };
}

}  // namespace

double local_bytes(const GraphValue& value, const Spec& spec, const SplitCosts& sizes, int ranks) {
  return elements(value, sizes) * ir::size_of(value.dtype) / (spec.is_split() ? ranks : 1);
}

analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks, bool symmetric) {
  std::vector<int> group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  analysis::CollectiveShape shape;
  shape.dtype = step.dtype;
  shape.bytes = step.bytes;
  shape.ranks = group;
  shape.symmetric = symmetric;
  switch (step.kind) {
    case StepKind::all_gather:
      shape.kind = ir::CollectiveKind::all_gather;
      shape.bytes = step.bytes * ranks;
      break;
    case StepKind::reduce_scatter:
      shape.kind = ir::CollectiveKind::reduce_scatter;
      break;
    case StepKind::all_to_all:
      shape.kind = ir::CollectiveKind::all_to_all;
      break;
    default:
      shape.kind = ir::CollectiveKind::all_reduce;
  }
  return costs.collective(shape);
}

// The same steps are asked for again and again: layers are equal.
SplitCosts with_memory(SplitCosts costs) {
  using Key = std::tuple<StepKind, std::int64_t, ir::DType, int>;
  auto known = std::make_shared<std::map<Key, Cost>>();
  costs.step = [known, step_cost = std::move(costs.step)](const ConversionStep& step, int ranks) {
    const auto [entry, fresh] = known->try_emplace(Key{step.kind, step.bytes, step.dtype, ranks}, 0);
    if (fresh) entry->second = step_cost(step, ranks);
    return entry->second;
  };
  return costs;
}

bool moves_between_ranks(StepKind kind) { return kind != StepKind::slice && kind != StepKind::permute; }

SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options) {
  SplitCosts result;
  result.size = size_with(costs);
  result.node = [costs, options, sizes = result](const Graph& graph, const GraphNode& node,
                                                 const Strategy& strategy, int ranks) {
    const bool whole = strategy.letter < 0 && kind_of(node) == WorkKind::product && has_weights(graph, node);
    return node_cost(*costs, graph, node, strategy, ranks, sizes) + (whole ? options.whole_product : 0);
  };
  result.step = [costs, options](const ConversionStep& step, int ranks) -> Cost {
    if (!moves_between_ranks(step.kind)) {
      analysis::KernelWork copy;
      copy.dtype = step.dtype;
      copy.bytes = static_cast<double>(step.bytes) * (step.kind == StepKind::slice ? 2.0 / ranks : 2.0);
      return picoseconds(roofline(costs->machine(), copy).us());
    }
    return collective_cost(*costs, step, ranks).time.ps * options.communication / 1000;
  };
  return with_memory(std::move(result));
}

}  // namespace braid::frontend::sharding
