#include "split/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "solver/stage_cuts.h"
#include "split/fixed_lines.h"
#include "split/kept_lines.h"
#include "split/machine_costs.h"
#include "split/memory_rows.h"
#include "split/split_space.h"
#include "split/work.h"

namespace braid::split {

using solver::ChainNodeId;
using solver::cut_stages;
using solver::StageChain;
using solver::StageCuts;

namespace {

// Where the nodes of a plan are in a chain of them; invalid: computed at compile time.
IdVector<NodeId, ChainNodeId> positions_of(const Graph& graph, const SplitChoice& choice) {
  IdVector<NodeId, ChainNodeId> positions(graph.nodes.ids());
  ChainNodeId next{0};
  for (const ChosenNode& node : choice.nodes) positions[node.node] = next++;
  return positions;
}

// The nodes of a plan as a chain.
class Chain {
 public:
  Chain(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs)
      : graph_(graph),
        choice_(choice),
        costs_(costs),
        mesh_(choice.plan.mesh),
        position_(positions_of(graph, choice)) {}

  StageChain run() {
    for (const ChosenNode& node : choice_.nodes) chain_.nodes.push_back(node.cost);
    chain_.live.assign(chain_.nodes.ids(), 0);
    chain_.passing.assign(chain_.nodes.ids(), 0);
    for (const ValueId v : graph_.values.ids()) add_value(v);
    std::partial_sum(chain_.live.begin(), chain_.live.end(), chain_.live.begin());
    std::partial_sum(chain_.passing.begin(), chain_.passing.end(), chain_.passing.begin());
    add_conversions();
    limit_cuts();
    return std::move(chain_);
  }

 private:
  std::int64_t bytes(const GraphValue& value, const MeshSpec& spec) const {
    return static_cast<std::int64_t>(local_bytes(value, costs_, parts_of(spec, mesh_)));
  }

  // Nodes of the chain that read it; once each.
  std::vector<ChainNodeId> readers_of(const GraphValue& value) const {
    std::vector<ChainNodeId> readers;
    for (const GraphUse& use : value.readers) {
      if (use.node.valid() && position_[use.node].valid()) readers.push_back(position_[use.node]);
    }
    return distinct(std::move(readers));
  }
  static std::vector<ChainNodeId> distinct(std::vector<ChainNodeId> nodes) {
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  // Whether a node does nothing but move constants, which programs then have in that form.
  bool only_moves(ChainNodeId k) const {
    const std::vector<ValueId>& outputs = graph_.nodes[ir::at(choice_.nodes, k).node].outputs;
    return !outputs.empty() && outputs[0].valid() && graph_.values[outputs[0]].moved_constant;
  }

  void add_value(ValueId v) {
    const GraphValue& value = graph_.values[v];
    std::vector<ChainNodeId> readers = readers_of(value);
    if (value.constant || value.moved_constant)
      std::erase_if(readers, [&](ChainNodeId k) { return only_moves(k); });
    const ChainNodeId producer = value.producer.valid() ? position_[value.producer] : ChainNodeId{};
    if (!producer.valid()) {
      // A copy in each stage that reads it, in the state in which its first reader there takes it.
      if (readers.empty()) return;
      const ChosenNode& first = ir::at(choice_.nodes, readers[0]);
      const std::vector<ValueId>& inputs = graph_.nodes[first.node].inputs;
      const auto k = std::ranges::find(inputs, v) - inputs.begin();
      MeshSpec spec;
      for (const Strategy* s : first.axes) spec.push_back(value.constant ? s->inputs[k] : Spec::replicated());
      chain_.shared.push_back({0, bytes(value, spec), readers});
      return;
    }
    const bool returned =
        std::ranges::any_of(value.readers, [](const GraphUse& use) { return !use.node.valid(); });
    if (readers.empty() && !returned) return;
    const std::int64_t own = bytes(value, choice_.plan.of_value(value.name));
    if (value.moved_constant) {
      if (!readers.empty()) chain_.shared.push_back({0, own, readers});
      return;
    }
    const ChainNodeId last = readers.empty() ? producer : std::max(producer, readers.back());
    add(chain_.live, producer, last + 1, own);
    add(chain_.passing, producer + 1, last + 1, own);
  }

  // A range, as differences.
  static void add(IdVector<ChainNodeId, std::int64_t>& sums, ChainNodeId begin, ChainNodeId end,
                  std::int64_t bytes) {
    if (begin >= end || begin >= sums.end_id()) return;
    sums[begin] += bytes;
    if (end < sums.end_id()) sums[end] -= bytes;
  }

  // Conversions count once in each stage that has a reader. The program's outputs are converted where they
  // are produced.
  void add_conversions() {
    std::map<std::string, ChainNodeId> position;
    for (const ChosenNode& node : choice_.nodes)
      position[plan_name(graph_, graph_.nodes[node.node])] = position_[node.node];
    for (const ChosenConversion& c : choice_.conversions) {
      std::vector<ChainNodeId> readers;
      for (const std::string& reader : c.readers) {
        const auto found = position.find(reader);
        if (found != position.end()) readers.push_back(found->second);
        const NodeId producer = graph_.values[c.value].producer;
        if (found == position.end() && producer.valid() && position_[producer].valid())
          readers.push_back(position_[producer]);
      }
      if (!readers.empty()) chain_.shared.push_back({c.cost, 0, distinct(std::move(readers))});
    }
  }

  void limit_cuts() {
    constexpr std::size_t kMostCuts = 2000;
    const std::size_t nodes = chain_.nodes.size();
    chain_.may_cut.assign(nodes, nodes <= kMostCuts ? 1 : 0);
    if (nodes <= kMostCuts) return;
    const IdRange<ChainNodeId> inner(ChainNodeId{1}, chain_.nodes.end_id());
    std::vector<ChainNodeId> order(inner.begin(), inner.end());
    std::ranges::stable_sort(order, {}, [&](ChainNodeId k) { return chain_.passing[k]; });
    for (std::size_t k = 0; k < kMostCuts; ++k) chain_.may_cut[order[k]] = 1;
  }

  const Graph& graph_;
  const SplitChoice& choice_;
  const SplitCosts& costs_;
  const Mesh& mesh_;
  IdVector<NodeId, ChainNodeId> position_;  // invalid: not in the chain
  StageChain chain_;
};

std::string name_in_model(const Graph& graph, const ChosenNode& chosen) {
  const GraphNode& node = graph.nodes[chosen.node];
  return node.name.empty() ? plan_name(graph, node) : node.name;
}

// Returns the graph of one stage. Nodes outside of the stage count as computed at compile time, and their
// results are inputs.
Graph graph_of_stage(const Graph& graph, const IdVector<NodeId, ChainNodeId>& position,
                     const StageCuts::Stage& stage) {
  Graph own = graph;
  IdVector<NodeId, char> inside(graph.nodes.ids(), 0);
  for (const NodeId n : std::views::reverse(graph.nodes.ids())) {
    const GraphNode& node = graph.nodes[n];
    inside[n] = inside[n] != 0 || stage.has(position[n]);
    if (inside[n] == 0) continue;
    // Constants that are moved have a copy in each stage.
    for (const ValueId v : node.inputs) {
      if (v.valid() && graph.values[v].producer.valid() && graph.values[v].moved_constant)
        inside[graph.values[v].producer] = 1;
    }
  }
  for (const NodeId n : graph.nodes.ids()) {
    if (position[n].valid() && inside[n] == 0) own.nodes[n].compile_time = true;
  }
  const auto is_read = [&](const GraphValue& value) {
    return std::ranges::any_of(
        value.readers, [&](const GraphUse& use) { return use.node.valid() && inside[use.node] != 0; });
  };
  for (GraphValue& value : own.values) {
    if (!value.producer.valid() || !position[value.producer].valid() || inside[value.producer] != 0 ||
        !is_read(value))
      continue;
    value.producer = {};
    value.graph_input = true;
  }
  std::erase_if(own.inputs, [&](ValueId v) { return !is_read(graph.values[v]); });
  std::erase_if(own.outputs, [&](ValueId v) {
    const NodeId producer = graph.values[v].producer;
    return !producer.valid() || inside[producer] == 0;
  });
  find_kinds(own);
  return own;
}

class StageSearch {
 public:
  StageSearch(const Graph& graph, int stages, const Mesh& mesh,
              const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options)
      : graph_(graph),
        stages_(stages),
        mesh_(mesh),
        model_(costs),
        costs_(split_costs(costs)),
        options_(options) {
    if (options.annotated) fixed_ = options.annotated->lines(graph, mesh);
    if (!options.keep.empty()) kept_ = parse_mesh_plan(options.keep, options.keep_file);
  }

  FoundStages run() {
    FoundStages found{stages_, mesh_.ranks(), {}, {}, {}, {}};
    const SplitSpace space(graph_, mesh_, space_options());
    require_kept(graph_, space);
    if (space.large()) {
      found.excluded = "the axes of the mesh are too many choices together";
      return found;
    }
    Best best;
    std::optional<KeptLines> kept;
    if (kept_) kept.emplace(graph_, space, *kept_, options_.keep_file);
    if (kept) kept->require_possible(space.problem(costs_));
    best.choice = space.choose(costs_, {}, kept ? [&](Problem& p) { kept->restrict(p); } : Restrict());
    if (!best.choice.solution.feasible()) require_kept(best.choice.solution);
    position_ = positions_of(graph_, best.choice);
    if (count_of(best.choice.nodes) < stages_) {
      found.excluded = "the model has fewer nodes";
      return found;
    }
    best.fits = cut(best, options_.memory);
    if (best.fits) {
      found.shared.ps = best.cuts.longest;
    } else {
      cut(best, std::nullopt);
    }
    constexpr int kMostRounds = 4;
    for (int round = 0; mesh_.ranks() > 1 && round < kMostRounds; ++round) {  // one rank has one plan
      if (!improve(best, false) && !improve(best, true)) break;
    }
    if (!best.fits) {
      found.excluded = "no cut that was tried keeps the memory limit";
      return found;
    }
    found.longest.ps = best.cuts.longest;
    for (int s = 0; s < stages_; ++s) found.each.push_back(told(best, s));
    return found;
  }

 private:
  using Restrict = std::function<void(Problem&)>;
  struct Best {
    SplitChoice choice;  // of the whole graph, each stage's nodes with the stage's plan
    StageCuts cuts;
    bool fits = false;
  };

  SpaceOptions space_options() const { return with_lines(graph_, fixed_.plan, fixed_.blocks, Caches::whole); }

  // Rank r of a stage sends to rank r of the next one.
  Cost transfer(int stage, std::int64_t bytes) const {
    const std::array<int, 2> pair = {stage * mesh_.ranks(), (stage + 1) * mesh_.ranks()};
    analysis::CollectiveShape shape;
    shape.kind = ir::CollectiveKind::send;
    shape.bytes = bytes;
    shape.ranks = pair;
    return model_->collective(shape).time.ps;
  }

  bool cut(Best& best, std::optional<std::int64_t> memory) const {
    const StageChain chain = Chain(graph_, best.choice, costs_).run();
    std::optional<StageCuts> cuts = cut_stages(
        chain, stages_, [&](int s, std::int64_t bytes) { return transfer(s, bytes); }, memory);
    if (cuts) best.cuts = std::move(*cuts);
    return cuts.has_value();
  }

  // Makes own plans for the stages, and cuts for these plans. `closed`: tensors that pass a cut keep their
  // state, so no stage becomes longer. Rows of memory count less than stages do, so a lower limit is tried,
  // too.
  bool improve(Best& best, bool closed) const {
    std::vector<std::optional<std::int64_t>> limits = {std::nullopt};
    if (options_.memory) limits.insert(limits.end(), {*options_.memory, *options_.memory * 3 / 4});
    bool better = false;
    for (const std::optional<std::int64_t>& limit : limits) {
      std::optional<SplitChoice> choice = own_plans(best, closed, limit);
      if (!choice) continue;
      Best next{std::move(*choice), {}, false};
      next.fits = cut(next, options_.memory);
      if (!next.fits) continue;
      if (!best.fits || next.cuts.longest < best.cuts.longest) {
        best = std::move(next);
        better = true;
      }
      break;
    }
    return better;
  }

  // nullopt: some stage has none within the limit.
  std::optional<SplitChoice> own_plans(const Best& best, bool closed,
                                       std::optional<std::int64_t> memory) const {
    SplitChoice merged = best.choice;
    merged.conversions.clear();
    for (int s = 0; s < stages_; ++s) {
      const StageCuts::Stage& stage = best.cuts.stages[s];
      const Graph own = graph_of_stage(graph_, position_, stage);
      const std::optional<SplitChoice> choice = own_plan(own, merged, s, stage, closed, memory);
      if (!choice) return std::nullopt;
      for (const ChosenNode& node : choice->nodes) {
        if (is_inside(node.node, stage)) ir::at(merged.nodes, position_[node.node]) = node;
      }
      merged.conversions.insert(merged.conversions.end(), choice->conversions.begin(),
                                choice->conversions.end());
      std::set<std::string> computed, nodes;
      for (const ChosenNode& node : choice->nodes) {
        if (!is_inside(node.node, stage)) continue;
        nodes.insert(plan_name(graph_, graph_.nodes[node.node]));
        for (const ValueId v : graph_.nodes[node.node].outputs)
          if (v.valid()) computed.insert(graph_.values[v].name);
      }
      for (std::size_t a = 0; a < merged.plan.axes.size(); ++a) {
        Plan& all = merged.plan.axes[a];
        std::erase_if(all.values, [&](const auto& line) { return computed.count(line.first) > 0; });
        std::erase_if(all.readers, [&](const auto& line) { return nodes.count(line.first.second.node) > 0; });
        for (const auto& line : choice->plan.axes[a].values)
          if (computed.count(line.first) > 0) all.values.insert(line);
        for (const auto& [key, spec] : choice->plan.axes[a].readers) all.readers[key] = spec;
      }
    }
    return merged;
  }

  std::optional<SplitChoice> own_plan(const Graph& own, const SplitChoice& so_far, int number,
                                      const StageCuts::Stage& stage, bool closed,
                                      std::optional<std::int64_t> memory) const {
    SpaceOptions options = space_options();
    for (const ValueId v : own.values.ids()) {
      if (!own.values[v].producer.valid() && graph_.values[v].producer.valid())
        options.given[v] = so_far.plan.of_value(own.values[v].name);
    }
    const SplitSpace space(own, mesh_, std::move(options));
    std::optional<KeptLines> kept;
    if (kept_) kept.emplace(own, space, kept_inside(own, stage), options_.keep_file);
    std::optional<MemoryRows> rows;
    if (memory) rows.emplace(own, space, costs_.size);
    SplitChoice choice = space.choose(costs_, {}, [&](Problem& problem) {
      if (kept) kept->restrict(problem);
      if (rows) rows->limit(problem, *memory);
      if (number + 1 < stages_) send(space, so_far, number, stage, closed, problem);
    });
    if (!choice.solution.feasible()) return std::nullopt;
    return choice;
  }

  // Adds the time to send each tensor that the stage computes for later ones, by its state, on top of the
  // tensors that pass through the stage.
  void send(const SplitSpace& space, const SplitChoice& so_far, int number, const StageCuts::Stage& stage,
            bool closed, Problem& problem) const {
    std::int64_t through = 0;
    struct Sent {
      VariableId variable;
      int output;
      const GraphValue* value;
    };
    std::vector<Sent> sent;
    for (const ValueId v : graph_.values.ids()) {
      const GraphValue& value = graph_.values[v];
      const ChainNodeId producer = value.producer.valid() ? position_[value.producer] : ChainNodeId{};
      const bool later = std::ranges::any_of(value.readers, [&](const GraphUse& use) {
        return use.node.valid() && position_[use.node] >= stage.end;
      });
      if (!producer.valid() || producer >= stage.end || !later || value.moved_constant) continue;
      if (producer < stage.begin) {
        through += bytes(value, so_far.plan.of_value(value.name));
        continue;
      }
      sent.push_back({space.variable_of(value.producer), graph_.nodes[value.producer].output_of(v), &value});
    }
    const Cost before = through == 0 ? 0 : transfer(number, through);
    for (const Sent& one : sent) {
      const MeshSpec known = so_far.plan.of_value(one.value->name);
      std::vector<Cost> costs;
      for (const ChoiceId c : space.choices_of(one.variable)) {
        Cost& cost = costs.emplace_back(problem.variables[one.variable][c]);
        if (cost == kForbidden) continue;
        const MeshSpec& state = space.produced_state(one.variable, c, one.output);
        if (closed && state != known) {
          cost = kForbidden;
        } else {
          cost += transfer(number, through + bytes(*one.value, state)) - before;
        }
      }
      problem.variables[one.variable] = std::move(costs);
    }
  }

  bool is_inside(NodeId node, const StageCuts::Stage& stage) const {
    return node.valid() && stage.has(position_[node]);
  }

  std::int64_t bytes(const GraphValue& value, const MeshSpec& state) const {
    return static_cast<std::int64_t>(local_bytes(value, costs_, parts_of(state, mesh_)));
  }

  // The lines about what the stage computes and reads.
  MeshPlan kept_inside(const Graph& own, const StageCuts::Stage& stage) const {
    std::set<std::string> nodes;
    for (const NodeId n : own.nodes.ids())
      if (is_inside(n, stage)) nodes.insert(plan_name(own, own.nodes[n]));
    const auto is_computed = [&](const std::string& name) {
      const ValueId v = graph_.find(name);
      return v.valid() && is_inside(graph_.values[v].producer, stage);
    };
    const auto other_value = [&](const auto& line) { return !is_computed(line.first); };
    const auto other_reader = [&](const auto& line) {
      const std::string& node = line.first.second.node;
      return node.empty() ? !is_computed(line.first.first) : nodes.count(node) == 0;
    };
    MeshPlan plan = *kept_;
    for (Plan& axis : plan.axes) {
      std::erase_if(axis.values, other_value);
      std::erase_if(axis.value_lines, other_value);
      std::erase_if(axis.readers, other_reader);
      std::erase_if(axis.reader_lines, other_reader);
    }
    return plan;
  }

  FoundStage told(const Best& best, int number) const {
    const StageCuts::Stage& stage = best.cuts.stages[number];
    FoundStage told;
    told.first = name_in_model(graph_, ir::at(best.choice.nodes, stage.begin));
    told.last = name_in_model(graph_, ir::at(best.choice.nodes, stage.end - 1));
    told.nodes = stage.end - stage.begin;
    told.compute.ps = stage.compute;
    told.transfer.ps = stage.transfer;
    told.bytes = stage.bytes;
    told.sent = stage.sent;
    std::set<std::string> nodes, values;
    for (const ChainNodeId k : IdRange(stage.begin, stage.end)) {
      const ChosenNode& chosen = ir::at(best.choice.nodes, k);
      told.split += chosen.is_split() ? 1 : 0;
      nodes.insert(plan_name(graph_, graph_.nodes[chosen.node]));
      for (const ValueId v : graph_.nodes[chosen.node].outputs)
        if (v.valid()) values.insert(graph_.values[v].name);
    }
    for (const ChosenConversion& c : best.choice.conversions) {
      const bool here = std::ranges::any_of(c.readers, [&](const std::string& reader) {
        return reader.empty() ? values.count(graph_.values[c.value].name) > 0 : nodes.count(reader) > 0;
      });
      if (here)
        told.collectives += std::ranges::count_if(
            c.steps, [](const ConversionStep& step) { return moves_between_ranks(step.kind); });
    }
    MeshPlan plan = best.choice.plan;
    for (Plan& axis : plan.axes) {
      std::erase_if(axis.values, [&](const auto& line) { return values.count(line.first) == 0; });
      std::erase_if(axis.readers, [&](const auto& line) {
        const std::string& node = line.first.second.node;
        return node.empty() ? values.count(line.first.first) == 0 : nodes.count(node) == 0;
      });
    }
    told.plan = to_string(plan);
    return told;
  }

  const Graph& graph_;
  int stages_;
  Mesh mesh_;
  std::shared_ptr<const analysis::CostModel> model_;
  SplitCosts costs_;
  const SearchOptions& options_;
  FixedLines fixed_;
  std::optional<MeshPlan> kept_;
  IdVector<NodeId, ChainNodeId> position_;  // in the chain; invalid: not in it
};

}  // namespace

FoundStages find_stages(const Graph& graph, int stages, int ranks,
                        const std::shared_ptr<const analysis::CostModel>& costs,
                        const SearchOptions& options) {
  Mesh mesh = Mesh::line(ranks);
  FoundStages found{stages, ranks, {}, {}, {}, {}};
  const auto fits = [&](const Mesh& own, const char* what) {
    if (own.ranks() == ranks) {
      mesh = own;
      return true;
    }
    found.excluded = fmt::format("{} are for {} ranks", what, own.ranks());
    return false;
  };
  if (options.annotated && !fits(options.annotated->mesh, "the annotations of the model")) return found;
  if (!options.keep.empty() &&
      !fits(mesh_of_plan(options.keep, options.keep_file), "the lines that are kept"))
    return found;
  return StageSearch(graph, stages, mesh, costs, options).run();
}

}  // namespace braid::split
