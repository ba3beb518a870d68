#include "split/machine_costs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "split/work.h"

namespace braid::split {

namespace {

// Costs are capped here: one such cost is too much for the sums of any problem (BR0480).
constexpr Cost kTooMuch = kLargestTotal + 1;
Cost picoseconds(double us) {
  const double ps = us * 1e6;
  return ps < static_cast<double>(kTooMuch) ? static_cast<Cost>(std::llround(ps)) : kTooMuch;
}
Cost thousandths(Cost cost, int factor) {
  return static_cast<Cost>(std::min<__int128>(static_cast<__int128>(cost) * factor / 1000, kTooMuch));
}

// All that the costs of a node depend on.
std::string key_of(const NodeWork& work) {
  std::string text;
  const auto add = [&](const auto& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(work.kind);
  add(work.free);
  add(work.asked);
  add(work.dtype);
  add(work.flops);
  add(work.passed_on);
  add(work.tables);
  for (const auto* list : {&work.reads, &work.writes}) {
    add(list->size());
    for (const auto& [k, bytes] : *list) {
      add(k);
      add(bytes);
    }
  }
  return text;
}

Cost node_cost(const analysis::Machine& machine, const NodeWork& node, Combination axes, const Mesh& mesh,
               int memory) {
  if (node.free) return 0;
  analysis::KernelWork work;
  work.kernel_class = class_of(node.kind);
  work.dtype = node.dtype;
  work.flops = node.flops / parts_of_work(axes, mesh);
  for (const auto& [k, bytes] : node.writes) work.bytes += bytes / parts_of_output(axes, mesh, k);
  const bool fused = is_fused(node.kind);
  if (!fused) {
    for (const auto& [k, bytes] : node.reads) work.bytes += bytes / parts_of_input(axes, mesh, k);
  }
  work.bytes += node.passed_on / parts_of_work(axes, mesh) + node.tables;
  work.bytes *= 1000.0 / memory;
  return picoseconds(roofline(machine, work).us() + (fused ? 0 : machine.launch_us));
}

std::function<std::int64_t(const ir::Expr&)> size_with(
    const std::shared_ptr<const analysis::CostModel>& costs) {
  return [costs](const ir::Expr& size) { return costs->value(size); };
}

}  // namespace

int parts_of_input(Combination axes, const Mesh& mesh, int k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->inputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_output(Combination axes, const Mesh& mesh, int k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->outputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_work(Combination axes, const Mesh& mesh) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) parts *= axes[a]->letter.valid() ? mesh.axes[a].size : 1;
  return parts;
}

double local_bytes(const GraphValue& value, const SplitCosts& sizes, int parts) {
  return elements(value, sizes) * ir::size_of(value.dtype) / parts;
}

analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks, bool symmetric, ir::Algorithm algorithm) {
  std::vector<int> group;
  for (int r = 0; r < ranks; ++r) group.push_back(r * step.stride);
  analysis::CollectiveShape shape;
  shape.dtype = step.dtype;
  shape.bytes = step.bytes;
  shape.ranks = group;
  shape.symmetric = symmetric;
  shape.algorithm = algorithm;
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
  struct Key {
    std::int64_t bytes;
    StepKind kind;
    ir::DType dtype;
    int ranks, stride;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t hash = key.bytes;
      for (const int value : {static_cast<int>(key.kind), static_cast<int>(key.dtype), key.ranks, key.stride})
        hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15u + value;
      return hash;
    }
  };
  auto known = std::make_shared<std::unordered_map<Key, Cost, Hash>>();
  costs.step = [known, step_cost = std::move(costs.step)](const ConversionStep& step, int ranks) {
    const auto [entry, fresh] =
        known->try_emplace(Key{step.bytes, step.kind, step.dtype, ranks, step.stride}, 0);
    if (fresh) entry->second = step_cost(step, ranks);
    return entry->second;
  };
  return costs;
}

Cost whole_product(std::int64_t steps) {
  constexpr Cost kWhole = 1'000'000'000'000;
  constexpr std::int64_t kManySteps = 1000, kMostSteps = 20000;
  const Cost whole = kWhole / std::clamp<std::int64_t>(steps, 1, kManySteps);
  return whole / std::max<std::int64_t>(steps / kMostSteps, 1);
}

bool moves_between_ranks(StepKind kind) { return kind != StepKind::slice && kind != StepKind::permute; }

// Works of nodes by numbers, equal ones once.
struct KnownWork {
  WorkId number(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
    NodeWork work = work_of(graph, node, sizes);
    const auto [entry, fresh] = numbers.try_emplace(key_of(work), works.end_id());
    if (fresh) works.push_back(std::move(work));
    return entry->second;
  }

  IdVector<WorkId, NodeWork> works;
  std::unordered_map<std::string, WorkId> numbers;  // by their keys
  IdVector<NodeId, WorkId>
      nodes;  // of one graph, if they are known; of those that are computed at compile time none
};

std::shared_ptr<const KnownWork> known_work(const Graph& graph, const analysis::CostModel& costs) {
  SplitCosts sizes;
  sizes.size = [&](const ir::Expr& size) { return costs.value(size); };
  auto known = std::make_shared<KnownWork>();
  for (const GraphNode& node : graph.nodes)
    known->nodes.push_back(node.compile_time ? WorkId{} : known->number(graph, node, sizes));
  return known;
}

SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options,
                       std::shared_ptr<const KnownWork> known) {
  SplitCosts result;
  result.size = size_with(costs);
  if (known) {
    result.key = [known](const Graph& graph, const GraphNode& node) {
      return known->nodes[graph.id_of(node)];
    };
  } else {
    auto own = std::make_shared<KnownWork>();
    result.key = [own, sizes = result](const Graph& graph, const GraphNode& node) {
      return own->number(graph, node, sizes);
    };
    known = std::move(own);
  }
  result.of_key = [costs, options, known](WorkId key, Combination axes, const Mesh& mesh) {
    const NodeWork& work = known->works[key];
    // Per axis along which it could be split.
    const auto whole =
        std::count_if(axes.begin(), axes.end(), [](const Strategy* s) { return !s->letter.valid(); });
    return node_cost(costs->machine(), work, axes, mesh, options.memory) +
           (work.asked ? whole * options.whole_product : 0);
  };
  result.node_on_mesh = [key = result.key, of_key = result.of_key](const Graph& graph, const GraphNode& node,
                                                                   Combination axes, const Mesh& mesh) {
    return of_key(key(graph, node), axes, mesh);
  };
  result.node = [on_mesh = result.node_on_mesh](const Graph& graph, const GraphNode& node,
                                                const Strategy& strategy, int ranks) {
    const Strategy* one = &strategy;
    return on_mesh(graph, node, {&one, 1}, Mesh::line(ranks));
  };
  result.step = [costs, options](const ConversionStep& step, int ranks) -> Cost {
    if (!moves_between_ranks(step.kind)) {
      analysis::KernelWork copy;
      copy.dtype = step.dtype;
      copy.bytes = static_cast<double>(step.bytes) * (step.kind == StepKind::slice ? 2.0 / ranks : 2.0);
      copy.bytes *= 1000.0 / options.memory;
      return picoseconds(roofline(costs->machine(), copy).us());
    }
    // Operands are computed into the segment.
    return thousandths(collective_cost(*costs, step, ranks, true).time.ps, options.communication);
  };
  return with_memory(std::move(result));
}

}  // namespace braid::split
