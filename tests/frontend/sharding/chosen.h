// Plans for tests: whatever the search finds with costs that make splitting worth while, or at random.
#pragma once

#include <cmath>
#include <memory>
#include <random>

#include "frontend/sharding/choose.h"
#include "frontend/sharding/split.h"

namespace braid::frontend::sharding {

// Work is elements of inputs and outputs times a constant, products more; transfers are cheap, so that much is split. With a
// seed every cost is multiplied by a random factor, for plans that no sensible machine would want.
inline SplitCosts test_costs(unsigned seed = 0) {
  auto random = std::make_shared<std::mt19937>(seed);
  const auto noise = [random, seed](Cost cost) {
    return seed == 0 ? cost
                     : static_cast<Cost>(static_cast<double>(cost) *
                                         (0.01 + static_cast<double>((*random)() % 1000) / 100));
  };
  SplitCosts costs;
  costs.size = [](const ir::Expr& size) { return std::min<std::int64_t>(ir::bounds(size).max, 1 << 20); };
  costs.node_on_mesh = [noise](const Graph& graph, const GraphNode& node, Combination axes,
                               const Mesh& mesh) {
    Cost sum = 10;
    const auto add = [&](const std::vector<int>& values, bool outputs) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (values[k] < 0) continue;
        Cost elements = 1;
        for (const ir::Expr& size : graph.values[static_cast<std::size_t>(values[k])].sizes)
          elements *= std::min<std::int64_t>(ir::bounds(size).max, 1024);
        elements = std::min<Cost>(elements, 1 << 26) * 100;
        for (std::size_t a = 0; a < axes.size(); ++a)
          elements /= (outputs ? axes[a]->outputs[k] : axes[a]->inputs[k]).is_split() ? mesh.axes[a].size : 1;
        sum += elements;
      }
    };
    add(node.inputs, false);
    add(node.outputs, true);
    return noise(sum);
  };
  costs.node = [on_mesh = costs.node_on_mesh](const Graph& graph, const GraphNode& node, const Strategy& s,
                                              int ranks) {
    const Strategy* one = &s;
    return on_mesh(graph, node, {&one, 1}, Mesh::line(ranks));
  };
  costs.step = [noise](const ConversionStep& step, int) {
    return noise(100 + std::min<Cost>(step.bytes, 1 << 26) * 5);
  };
  return costs;
}

struct Chosen {
  MeshPlan plan;
  Interface inputs, outputs;  // on the first axis
  int split_nodes = 0;        // nodes that compute parts
  bool joint = true;
};

// A request that searches with these costs and notes what was applied in `chosen`, which must outlive it.
inline std::shared_ptr<const SplitRequest> chosen_request(Chosen& chosen, unsigned seed = 0,
                                                          Caches caches = Caches::whole,
                                                          const Mesh& on = {}) {
  auto request = std::make_shared<SplitRequest>();
  request->mesh = on;
  request->choose = [&chosen, seed, caches](const Graph& graph, const Mesh& mesh) {
    const SplitSpace space(graph, mesh, {.caches = caches});
    const SplitChoice choice = choose_split(space, test_costs(seed));
    chosen.plan = choice.plan;
    chosen.joint = choice.joint;
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
