#include "frontend/sharding/stages.h"

#include <algorithm>
#include <array>
#include <map>

#include "frontend/sharding/choose.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/stage_cuts.h"
#include "frontend/sharding/work.h"

namespace braid::frontend::sharding {
namespace {

std::size_t at(int k) { return static_cast<std::size_t>(k); }

// The nodes of a plan as a chain.
class Chain {
 public:
  Chain(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs)
      : graph_(graph), choice_(choice), costs_(costs), mesh_(choice.plan.mesh) {
    position_.assign(graph.nodes.size(), -1);
    for (std::size_t k = 0; k < choice.nodes.size(); ++k)
      position_[at(choice.nodes[k].node)] = static_cast<int>(k);
  }

  StageChain run() {
    const std::size_t nodes = choice_.nodes.size();
    for (const ChosenNode& node : choice_.nodes) chain_.nodes.push_back(node.cost);
    chain_.live.assign(nodes, 0);
    chain_.passing.assign(nodes, 0);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) add_value(static_cast<int>(v));
    for (std::size_t k = 1; k < nodes; ++k) {
      chain_.live[k] += chain_.live[k - 1];
      chain_.passing[k] += chain_.passing[k - 1];
    }
    add_conversions();
    limit_cuts();
    return std::move(chain_);
  }

 private:
  std::int64_t bytes(const GraphValue& value, const MeshSpec& spec) const {
    return static_cast<std::int64_t>(local_bytes(value, costs_, parts_of(spec, mesh_)));
  }

  // Nodes of the chain that read it; once each.
  std::vector<int> readers_of(const GraphValue& value) const {
    std::vector<int> readers;
    for (const GraphUse& use : value.readers) {
      if (use.node >= 0 && position_[at(use.node)] >= 0) readers.push_back(position_[at(use.node)]);
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
  }

  // Whether a node does nothing but move constants, which programs then have in that form.
  bool only_moves(int k) const {
    const std::vector<int>& outputs = graph_.nodes[at(choice_.nodes[at(k)].node)].outputs;
    return !outputs.empty() && outputs[0] >= 0 && is_moved_constant(graph_, graph_.values[at(outputs[0])]);
  }

  void add_value(int v) {
    const GraphValue& value = graph_.values[at(v)];
    std::vector<int> readers = readers_of(value);
    if (value.constant || is_moved_constant(graph_, value))
      std::erase_if(readers, [&](int k) { return only_moves(k); });
    const int producer = value.producer < 0 ? -1 : position_[at(value.producer)];
    if (producer < 0) {
      // A copy in each stage that reads it, in the state in which its first reader there takes it.
      if (readers.empty()) return;
      const ChosenNode& first = choice_.nodes[at(readers[0])];
      const std::vector<int>& inputs = graph_.nodes[at(first.node)].inputs;
      const auto k = static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
      MeshSpec spec;
      for (const Strategy& s : first.axes) spec.push_back(value.constant ? s.inputs[k] : Spec::replicated());
      chain_.shared.push_back({0, bytes(value, spec), readers});
      return;
    }
    const bool returned = std::any_of(value.readers.begin(), value.readers.end(),
                                      [](const GraphUse& use) { return use.node < 0; });
    if (readers.empty() && !returned) return;
    const std::int64_t own = bytes(value, choice_.plan.of_value(value.name));
    if (is_moved_constant(graph_, value)) {
      if (!readers.empty()) chain_.shared.push_back({0, own, readers});
      return;
    }
    const int last = readers.empty() ? producer : std::max(producer, readers.back());
    add(chain_.live, producer, last + 1, own);
    add(chain_.passing, producer + 1, last + 1, own);
  }

  // A range, as differences.
  static void add(std::vector<std::int64_t>& sums, int begin, int end, std::int64_t bytes) {
    if (begin >= end || begin >= static_cast<int>(sums.size())) return;
    sums[at(begin)] += bytes;
    if (end < static_cast<int>(sums.size())) sums[at(end)] -= bytes;
  }

  // Once in each stage that has a reader; what the program returns is converted where it is produced.
  void add_conversions() {
    std::map<std::string, int> position;
    for (std::size_t k = 0; k < choice_.nodes.size(); ++k)
      position[plan_name(graph_, graph_.nodes[at(choice_.nodes[k].node)])] = static_cast<int>(k);
    for (const ChosenConversion& c : choice_.conversions) {
      std::vector<int> readers;
      for (const std::string& reader : c.readers) {
        const auto found = position.find(reader);
        if (found != position.end()) readers.push_back(found->second);
        const int producer = graph_.values[at(c.value)].producer;
        if (found == position.end() && producer >= 0 && position_[at(producer)] >= 0)
          readers.push_back(position_[at(producer)]);
      }
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      if (!readers.empty()) chain_.shared.push_back({c.cost, 0, readers});
    }
  }

  void limit_cuts() {
    constexpr std::size_t kMostCuts = 2000;
    const std::size_t nodes = chain_.nodes.size();
    chain_.may_cut.assign(nodes, nodes <= kMostCuts ? 1 : 0);
    if (nodes <= kMostCuts) return;
    std::vector<std::size_t> order;
    for (std::size_t k = 1; k < nodes; ++k) order.push_back(k);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return chain_.passing[a] < chain_.passing[b]; });
    for (std::size_t k = 0; k < kMostCuts; ++k) chain_.may_cut[order[k]] = 1;
  }

  const Graph& graph_;
  const SplitChoice& choice_;
  const SplitCosts& costs_;
  const Mesh& mesh_;
  std::vector<int> position_;  // by node of the graph; -1: not in the chain
  StageChain chain_;
};

std::string name_in_model(const Graph& graph, const ChosenNode& chosen) {
  const GraphNode& node = graph.nodes[at(chosen.node)];
  return node.proto->name().empty() ? plan_name(graph, node) : node.proto->name();
}

}  // namespace

FoundStages find_stages(const Graph& graph, int stages, int ranks,
                        const std::shared_ptr<const analysis::CostModel>& costs,
                        std::optional<std::int64_t> memory) {
  FoundStages found{stages, ranks, {}, {}};
  const SplitCosts plain = split_costs(costs);
  const SplitSpace space(graph, ranks);
  const SplitChoice choice = space.choose(plain);
  if (static_cast<int>(choice.nodes.size()) < stages) return found;
  const StageChain chain = Chain(graph, choice, plain).run();
  // Rank r of a stage sends to rank r of the next one.
  const auto transfer = [&](int stage, std::int64_t bytes) -> Cost {
    const std::array<int, 2> pair = {stage * ranks, (stage + 1) * ranks};
    analysis::CollectiveShape shape;
    shape.kind = ir::CollectiveKind::send;
    shape.bytes = bytes;
    shape.ranks = pair;
    return costs->collective(shape).time.ps;
  };
  const std::optional<StageCuts> cuts = cut_stages(chain, stages, transfer, memory);
  if (!cuts) return found;
  found.longest.ps = cuts->longest;
  for (const StageCuts::Stage& stage : cuts->stages)
    found.each.push_back({name_in_model(graph, choice.nodes[at(stage.begin)]),
                          name_in_model(graph, choice.nodes[at(stage.end - 1)]),
                          stage.end - stage.begin,
                          {stage.compute},
                          {stage.transfer},
                          stage.bytes,
                          stage.sent});
  return found;
}

}  // namespace braid::frontend::sharding
