#include "frontend/sharding/machine_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "frontend/sharding/work.h"

namespace braid::frontend::sharding {

using analysis::KernelClass;

namespace {

// The same for one axis.
void set_nodes(SplitCosts& costs,
               std::function<Cost(const Graph&, const GraphNode&, Combination, const Mesh&)> on_mesh) {
  costs.node = [on_mesh](const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks) {
    const Strategy* one = &strategy;
    return on_mesh(graph, node, {&one, 1}, Mesh::line(ranks));
  };
  costs.node_on_mesh = std::move(on_mesh);
}

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

Cost node_cost(const analysis::CostModel& costs, const Graph& graph, const GraphNode& node, Combination axes,
               const Mesh& mesh, const SplitCosts& sizes, int memory) {
  const WorkKind kind = kind_of(node);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (kind == WorkKind::view || y == nullptr || is_moved_constant(graph, *y)) return 0;
  const bool fused = kind == WorkKind::pointwise || kind == WorkKind::movement;
  analysis::KernelWork work;
  work.kernel_class = class_of(kind);
  work.dtype = y->dtype;
  work.flops = flops(graph, node, kind, sizes) / parts_of_work(axes, mesh);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.outputs, k);
        value != nullptr && !value->readers.empty())
      work.bytes += local_bytes(*value, sizes, parts_of_output(axes, mesh, k));
  }
  for (std::size_t k = 0; !fused && k < node.inputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.inputs, k); value != nullptr)
      work.bytes += local_bytes(*value, sizes, parts_of_input(axes, mesh, k));
  }
  work.bytes *= 1000.0 / memory;
  return picoseconds(roofline(costs.machine(), work).us() + (fused ? 0 : costs.machine().launch_us));
}

std::function<std::int64_t(const ir::Expr&)> size_with(
    const std::shared_ptr<const analysis::CostModel>& costs) {
  return [costs](const ir::Expr& size) { return costs->value(size); };
}

}  // namespace

int parts_of_input(Combination axes, const Mesh& mesh, std::size_t k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->inputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_output(Combination axes, const Mesh& mesh, std::size_t k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->outputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_work(Combination axes, const Mesh& mesh) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) parts *= axes[a]->letter >= 0 ? mesh.axes[a].size : 1;
  return parts;
}

double local_bytes(const GraphValue& value, const SplitCosts& sizes, int parts) {
  return elements(value, sizes) * ir::size_of(value.dtype) / parts;
}

analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks, bool symmetric) {
  std::vector<int> group(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) group[static_cast<std::size_t>(r)] = r * step.stride;
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

SplitCosts with_memory(SplitCosts costs) {
  using Key = std::tuple<StepKind, std::int64_t, ir::DType, int, int>;
  auto known = std::make_shared<std::map<Key, Cost>>();
  costs.step = [known, step_cost = std::move(costs.step)](const ConversionStep& step, int ranks) {
    const auto [entry, fresh] =
        known->try_emplace(Key{step.kind, step.bytes, step.dtype, ranks, step.stride}, 0);
    if (fresh) entry->second = step_cost(step, ranks);
    return entry->second;
  };
  return costs;
}

bool moves_between_ranks(StepKind kind) { return kind != StepKind::slice && kind != StepKind::permute; }

SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options) {
  SplitCosts result;
  result.size = size_with(costs);
  set_nodes(result, [costs, options, sizes = result](const Graph& graph, const GraphNode& node,
                                                     Combination axes, const Mesh& mesh) {
    // Per axis along which it could be split.
    const auto whole =
        std::count_if(axes.begin(), axes.end(), [](const Strategy* s) { return s->letter < 0; });
    const bool asked = kind_of(node) == WorkKind::product && has_weights(graph, node);
    return node_cost(*costs, graph, node, axes, mesh, sizes, options.memory) +
           (asked ? whole * options.whole_product : 0);
  });
  result.step = [costs, options](const ConversionStep& step, int ranks) -> Cost {
    if (!moves_between_ranks(step.kind)) {
      analysis::KernelWork copy;
      copy.dtype = step.dtype;
      copy.bytes = static_cast<double>(step.bytes) * (step.kind == StepKind::slice ? 2.0 / ranks : 2.0);
      copy.bytes *= 1000.0 / options.memory;
      return picoseconds(roofline(costs->machine(), copy).us());
    }
    // Operands are computed into the segment.
    return collective_cost(*costs, step, ranks, true).time.ps * options.communication / 1000;
  };
  return with_memory(std::move(result));
}

}  // namespace braid::frontend::sharding
