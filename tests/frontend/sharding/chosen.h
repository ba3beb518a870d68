// Plans for tests: whatever the search finds with costs that make splitting worth while, or at random.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "frontend/sharding/split.h"
#include "split/choose_split.h"

namespace braid::frontend::sharding {

// Work is elements of inputs and outputs times a constant, products more; transfers are cheap, so that much
// is split. With a seed every cost is multiplied by a random factor, for plans that no sensible machine would
// want. The same question always gets the same cost.
inline SplitCosts test_costs(unsigned seed = 0) {
  using Key = std::initializer_list<std::uint64_t>;  // what it is the cost of
  const auto noise = [seed](Cost cost, Key key) {
    if (seed == 0) return cost;
    std::uint64_t hash = seed;
    for (const std::uint64_t part : key) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return static_cast<Cost>(static_cast<double>(cost) * (0.01 + static_cast<double>(hash % 1000) / 100));
  };
  SplitCosts costs;
  costs.size = [](const ir::Expr& size) { return std::min<std::int64_t>(ir::bounds(size).max, 1 << 20); };
  costs.node_on_mesh = [noise](const Graph& graph, const GraphNode& node, Combination axes,
                               const Mesh& mesh) {
    Cost sum = 10;
    std::uint64_t choice = 0;
    const auto add = [&](const std::vector<ValueId>& values, bool outputs) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!values[k].valid()) continue;
        Cost elements = 1;
        for (const ir::Expr& size : graph.values[values[k]].sizes)
          elements *= std::min<std::int64_t>(ir::bounds(size).max, 1024);
        elements = std::min<Cost>(elements, 1 << 26) * 100;
        for (std::size_t a = 0; a < axes.size(); ++a) {
          const Spec& spec = (outputs ? axes[a]->outputs[k] : axes[a]->inputs[k]);
          elements /= spec.is_split() ? mesh.axes[a].size : 1;
          choice = choice * 31 + (spec.is_split() ? 2 + static_cast<std::uint64_t>(spec.dim)
                                                  : static_cast<std::uint64_t>(spec.is_pending()));
        }
        sum += elements;
      }
    };
    add(node.inputs, false);
    add(node.outputs, true);
    return noise(sum, {ir::offset_of(graph.id_of(node)), choice});
  };
  costs.node = [on_mesh = costs.node_on_mesh](const Graph& graph, const GraphNode& node, const Strategy& s,
                                              int ranks) {
    const Strategy* one = &s;
    return on_mesh(graph, node, {&one, 1}, Mesh::line(ranks));
  };
  costs.step = [noise](const ConversionStep& step, int ranks) {
    return noise(100 + std::min<Cost>(step.bytes, 1 << 26) * 5,
                 {static_cast<std::uint64_t>(step.kind), static_cast<std::uint64_t>(step.bytes),
                  static_cast<std::uint64_t>(step.axis), static_cast<std::uint64_t>(ranks)});
  };
  return costs;
}

struct Chosen {
  MeshPlan plan;
  Interface inputs, outputs;  // on the first axis
  int split_nodes = 0;        // nodes that compute parts
  bool joint = true;
  Cost found = 0, priced = 0;  // by the search, and of the plan
};

// A request that searches with these costs and notes what was applied in `chosen`, which must outlive it.
inline std::shared_ptr<const SplitRequest> chosen_request(Chosen& chosen, unsigned seed = 0,
                                                          Caches caches = Caches::whole,
                                                          const Mesh& on = {}) {
  auto request = std::make_shared<SplitRequest>();
  request->mesh = on;
  request->choose = [&chosen, seed, caches](const Graph& graph, const Mesh& mesh) {
    const SplitSpace space(graph, mesh, {.caches = caches});
    const SplitCosts costs = test_costs(seed);
    const SplitChoice choice = choose_split(space, costs);
    chosen.plan = choice.plan;
    chosen.joint = choice.joint;
    chosen.found = choice.solution.cost;
    chosen.priced = choice.price(graph, costs);
    chosen.inputs.clear();
    chosen.outputs.clear();
    chosen.split_nodes = 0;
    for (const ChosenNode& node : choice.nodes) {
      bool split = false;
      for (const Strategy* s : node.axes) {
        for (const Spec& spec : s->inputs) split |= spec.is_split();
      }
      chosen.split_nodes += split ? 1 : 0;
    }
    return choice.plan;
  };
  request->report = [&chosen](const Graph&, const Plan&, const Interface& inputs, const Interface& outputs) {
    if (chosen.plan.mesh.size() > 1) return;
    chosen.inputs = inputs;
    chosen.outputs = outputs;
  };
  return request;
}

}  // namespace braid::frontend::sharding
