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
  costs.node = [noise](const Graph& graph, const GraphNode& node, const Strategy& s, int ranks) {
    Cost sum = 10;
    const auto add = [&](const std::vector<int>& values, const std::vector<Spec>& specs) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (values[k] < 0) continue;
        Cost elements = 1;
        for (const ir::Expr& size : graph.values[static_cast<std::size_t>(values[k])].sizes)
          elements *= std::min<std::int64_t>(ir::bounds(size).max, 1024);
        sum += std::min<Cost>(elements, 1 << 26) * 100 / (specs[k].is_split() ? ranks : 1);
      }
    };
    add(node.inputs, s.inputs);
    add(node.outputs, s.outputs);
    return noise(sum);
  };
  costs.step = [noise](const ConversionStep& step, int) {
    return noise(100 + std::min<Cost>(step.bytes, 1 << 26) * 5);
  };
  return costs;
}

struct Chosen {
  Plan plan;
  Interface inputs, outputs;
  int split_nodes = 0;  // nodes that compute parts
};

// A request that searches with these costs and notes what was applied in `chosen`, which must outlive it.
inline std::shared_ptr<const SplitRequest> chosen_request(Chosen& chosen, unsigned seed = 0,
                                                          Caches caches = Caches::whole) {
  auto request = std::make_shared<SplitRequest>();
  request->choose = [&chosen, seed, caches](const Graph& graph, int ranks) {
    const SplitSpace space(graph, ranks, caches);
    const SplitChoice choice = space.choose(test_costs(seed));
    chosen.split_nodes = 0;
    for (const ChosenNode& node : choice.nodes) {
      for (const Spec& spec : node.strategy.inputs) {
        if (!spec.is_split()) continue;
        ++chosen.split_nodes;
        break;
      }
    }
    return choice.plan;
  };
  request->report = [&chosen](const Graph&, const Plan& plan, const Interface& inputs,
                              const Interface& outputs) {
    chosen.plan = plan;
    chosen.inputs = inputs;
    chosen.outputs = outputs;
  };
  return request;
}

}  // namespace braid::frontend::sharding
