// Explicit costs only, until there are machine descriptions: what has none costs nothing.
#include "passes/costs/cost_model.h"

#include <algorithm>
#include <mutex>

#include "ir/error.h"

namespace braid::passes {

using namespace ir;

CostModel::CostModel(Machine machine, CostOptions options)
    : machine_(std::move(machine)), options_(std::move(options)) {}

KernelCost CostModel::kernel(const Graph& graph, std::span<const OpId> ops) const {
  KernelCost out;
  for (OpId op : ops) {
    std::optional<double> ns;
    if (options_.function) ns = options_.function(graph, op);
    if (!ns && graph[op].cost && graph[op].cost->ns >= 0) ns = graph[op].cost->ns;
    out.time += Time::from_ns(ns.value_or(0));
  }
  return out;
}

CollectiveCost CostModel::collective(const Graph& graph, OpId start) const {
  CollectiveCost out;
  const OpId one[] = {start};
  out.time = kernel(graph, one).time;
  out.floor = out.time;
  out.priced_by_size = false;
  return out;
}

CollectiveCost CostModel::collective(const CollectiveShape&) const { return {}; }

CollectiveShape CostModel::shape(const Graph& graph, OpId start) const {
  const auto* kernel = graph[start].as<CollectiveKernel>();
  internal_check(kernel != nullptr, "'{}' is no collective", graph[start].name);
  CollectiveShape s;
  s.kind = kernel->kind;
  s.reduce = kernel->reduce;
  s.ranks = graph[kernel->group].ranks;
  const bool by_output = s.kind == CollectiveKind::all_gather || s.kind == CollectiveKind::recv;
  for (const TensorRef& t : by_output ? kernel->outputs : kernel->inputs) {
    s.dtype = graph[t.buffer].dtype;
    s.bytes += value(numel(t.sizes)) * size_of(s.dtype);
  }
  return s;
}

std::int64_t CostModel::value(const Expr& e) const {
  const ir::Bounds b = bounds(e);
  internal_check(b.max < kUnbounded, "a size without an upper bound has no cost");
  return b.max;
}

std::shared_ptr<const CostModel> cost_model_for(const std::string& machine) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CostModel>> known;
  const std::lock_guard lock(mutex);
  auto& model = known[machine];
  if (!model) model = std::make_shared<CostModel>(Machine{machine});
  return model;
}

}  // namespace braid::passes
