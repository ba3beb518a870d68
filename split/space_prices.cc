// Equal layers share tables.
#include "split/space_prices.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "ir/error.h"
#include "split/conversion_costs.h"

namespace braid::split {

namespace {

Cost sum(Cost a, Cost b) { return a == kForbidden || b == kForbidden ? kForbidden : a + b; }

// The collectives that the local form of a node has in it.
Cost inner_cost(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
                const SplitCosts& costs) {
  Cost sum = 0;
  for (int k = 0; k < mesh.size(); ++k) {
    if (!axes[k]->letter.valid()) continue;
    const int ranks = mesh.axes[k].size;
    for (ConversionStep& step : node.operation->inner(graph, node, *axes[k], ranks)) {
      step.axis = k;
      step.stride = mesh.stride(k);
      sum += costs.step(step, ranks);
    }
  }
  return sum;
}

}  // namespace

Cost cost_of(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
             const SplitCosts& costs) {
  const Cost own = costs.key          ? costs.of_key(costs.key(graph, node), axes, mesh)
                   : axes.size() == 1 ? costs.node(graph, node, *axes[0], mesh.ranks())
                                      : costs.node_on_mesh(graph, node, axes, mesh);
  return own + inner_cost(graph, node, axes, mesh, costs);
}

// Costs per variable of a node or a cache. Nodes that share their choices are equal except for their
// connections.
IdVector<VariableId, CostTable> SplitSpace::node_costs(const SplitCosts& costs) const {
  IdVector<VariableId, CostTable> all(nodes_.ids());
  std::map<std::pair<const void*, WorkId>, CostTable> known;
  for (const VariableId v : nodes_.ids()) {
    const IdVector<ChoiceId, const Choice*>& choices = *choices_[v];
    if (!nodes_[v].valid()) {
      all[v] = std::vector<Cost>(choices.size(), 0);
      continue;
    }
    const GraphNode& node = graph_.nodes[nodes_[v]];
    if (!costs.key) {
      std::vector<Cost>& own = all[v].edit();
      for (const Choice* choice : choices) own.push_back(cost_of(graph_, node, choice->axes, mesh_, costs));
      continue;
    }
    const WorkId key = costs.key(graph_, node);
    const auto [entry, fresh] = known.try_emplace({choices_[v], key});
    if (fresh) {
      std::vector<Cost>& own = entry->second.edit();
      own.reserve(choices.size());
      for (const Choice* choice : choices)
        own.push_back(costs.of_key(key, choice->axes, mesh_) +
                      inner_cost(graph_, node, choice->axes, mesh_, costs));
    }
    all[v] = entry->second;
  }
  return all;
}

Cost SplitSpace::least_of_nodes(const SplitCosts& costs) const {
  Cost sum = 0;
  for (const CostTable& own : node_costs(costs)) sum += *std::ranges::min_element(own);
  return sum;
}

std::int64_t SplitSpace::bytes(ValueId value, const SplitCosts& costs) const {
  std::int64_t elements = 1;
  for (const ir::Expr& size : graph_.values[value].sizes) elements *= costs.size(size);
  return elements * ir::size_of(graph_.values[value].dtype);
}

std::optional<std::vector<ConversionStep>> SplitSpace::steps(ValueId value, StateId from, StateId to,
                                                             const SplitCosts& costs) const {
  const GraphValue& v = graph_.values[value];
  return CheapestSteps(v.dtype, bytes(value, costs), v.sizes, mesh_, costs.step).steps(spec(from), spec(to));
}
// Caches tables by what they are computed from. Layers are equal, so the same tables are asked for again and
// again.
class SplitSpace::Tables {
 public:
  Tables(const SplitSpace& space, const SplitCosts& costs)
      : space_(space),
        costs_(costs),
        costs_of_conversions_(space.states_->specs, *space.states_->codes, space.mesh_, costs.step),
        shape_of_(space.graph_.value_kinds) {}

  // Conversions from each state of one list into each of the other, row by row, divided by `divisor`.
  const CostTable& conversions(ValueId value, States from, States to, Cost divisor = 1) {
    const auto [entry, fresh] =
        conversions_.try_emplace({shape(value).index, divisor, address(from), address(to)});
    if (!fresh) return entry->second;
    // Many choices take or produce the same state.
    const Distinct &rows = distinct(from), &columns = distinct(to);
    std::vector<Cost> of_states;
    of_states.reserve(rows.states.size() * columns.states.size());
    for (const StateId i : rows.states) {
      for (const StateId j : columns.states) {
        const Cost cost = conversion(value, i, j);
        of_states.push_back(cost == kForbidden ? kForbidden : cost / divisor);
      }
    }
    std::vector<Cost> costs;
    costs.reserve(from->size() * to->size());
    for (const std::size_t i : rows.number) {
      const Cost* row = &of_states[i * columns.states.size()];
      for (const std::size_t j : columns.number) costs.push_back(row[j]);
    }
    return entry->second = std::move(costs);
  }
  // The same, and nothing where it is forbidden.
  const CostTable& passage(ValueId value, States from, States to) {
    const CostTable& table = conversions(value, from, to);
    const auto [entry, fresh] = passages_.try_emplace(table.address(), table);
    if (fresh && std::ranges::find(table, kForbidden) != table.end())
      std::ranges::replace(entry->second.edit(), kForbidden, Cost{0});
    return entry->second;
  }
  Cost passage(ValueId value, StateId from, StateId to) {
    const Cost cost = conversion(value, from, to);
    return cost == kForbidden ? 0 : cost;
  }

  // Tables of a tensor with a variable: the costs of its choices, and the choices that its producer and a
  // reader allow.
  const CostTable& own(const Flow& flow) {
    const auto [entry, fresh] = own_.try_emplace({address(flow.choices), shape(flow.value).index});
    if (!fresh) return entry->second;
    std::vector<Cost>& costs = entry->second.edit();
    for (const ValueChoice& choice : flow.choices->all) {
      Cost cost = 0;
      for (const StateId to : choice.converted) cost = sum(cost, conversion(flow.value, choice.produced, to));
      costs.push_back(cost);
    }
    return entry->second;
  }
  const CostTable& of_producer(const Flow& flow) {
    const auto [entry, fresh] = allowed_.try_emplace({address(flow.choices), address(flow.produced), 0});
    if (!fresh) return entry->second;
    std::vector<Cost> costs;
    costs.reserve(flow.produced->size() * flow.choices->all.size());
    for (const StateId state : *flow.produced) {
      for (const ValueChoice& choice : flow.choices->all)
        costs.push_back(state == choice.produced ? 0 : kForbidden);
    }
    return entry->second = std::move(costs);
  }
  const CostTable& of_reader(const Flow& flow, const Reader& reader) {
    const auto [entry, fresh] = allowed_.try_emplace({address(flow.choices), address(reader.taken), 1});
    if (!fresh) return entry->second;
    std::vector<Cost> costs;
    costs.reserve(flow.choices->all.size() * reader.taken->size());
    IdVector<StateId, char> offered(space_.states_->specs.ids(), 0);
    for (const ValueChoice& choice : flow.choices->all) {
      offered[choice.produced] = 1;
      for (const StateId state : choice.converted) offered[state] = 1;
      for (const StateId state : *reader.taken) costs.push_back(offered[state] != 0 ? 0 : kForbidden);
      offered[choice.produced] = 0;
      for (const StateId state : choice.converted) offered[state] = 0;
    }
    return entry->second = std::move(costs);
  }

 private:
  static std::intptr_t address(const void* what) { return reinterpret_cast<std::intptr_t>(what); }

  Cost conversion(ValueId value, StateId from, StateId to) {
    if (from == to) return 0;
    const ConversionCosts::TensorId of = shape(value);
    if (!of.valid()) return kForbidden;
    return costs_of_conversions_(of, from, to).value_or(kForbidden);
  }

  // Invalid: the value is pinned.
  ConversionCosts::TensorId shape(ValueId value) {
    const GraphValue& v = space_.graph_.values[value];
    std::optional<ConversionCosts::TensorId>& known = shape_of_[v.kind];
    if (!known)
      known = v.pinned ? ConversionCosts::TensorId{}
                       : costs_of_conversions_.tensor(v.dtype, space_.bytes(value, costs_), v.sizes);
    return *known;
  }

  // The states of a list once each, and which of these every one is.
  struct Distinct {
    std::vector<StateId> states;
    std::vector<std::size_t> number;
  };
  const Distinct& distinct(States list) {
    const auto [entry, fresh] = distinct_.try_emplace(list);
    if (!fresh) return entry->second;
    IdVector<StateId, std::optional<std::size_t>> number(space_.states_->specs.ids());
    for (const StateId state : *list) {
      if (!number[state]) {
        number[state] = entry->second.states.size();
        entry->second.states.push_back(state);
      }
      entry->second.number.push_back(*number[state]);
    }
    return entry->second;
  }

  const SplitSpace& space_;
  const SplitCosts& costs_;
  ConversionCosts costs_of_conversions_;
  IdVector<ValueKindId, std::optional<ConversionCosts::TensorId>> shape_of_;
  std::unordered_map<const void*, Distinct> distinct_;
  std::map<std::array<std::intptr_t, 4>, CostTable> conversions_;
  std::map<std::array<std::intptr_t, 3>, CostTable> allowed_;
  std::map<std::array<std::intptr_t, 2>, CostTable> own_;
  std::unordered_map<const void*, CostTable> passages_;  // by the conversions
};

Problem SplitSpace::problem(const SplitCosts& costs, bool relaxed, std::size_t cells) const {
  return SpacePrices(*this, costs).problem(relaxed, cells);
}

Problem SplitSpace::problem(Tables& tables, const SplitCosts& costs, bool relaxed, std::size_t cells) const {
  ir::internal_check(relaxed || !large_, "a search space that is too large is searched");
  Problem problem;
  problem.order = order();
  problem.variables = node_costs(costs);
  problem.variables.resize(variables().size());
  // Equal layers share sums.
  struct Sum {
    CostTable first, second, both;
  };
  std::map<std::pair<const void*, const void*>, Sum> sums;
  const auto add = [&](CostTable& own, const CostTable& table) {
    const auto [entry, fresh] = sums.try_emplace({own.address(), table.address()}, Sum{own, table, own});
    if (fresh) {
      std::vector<Cost>& both = entry->second.both.edit();
      for (std::size_t c = 0; c < both.size(); ++c) both[c] = sum(both[c], table[c]);
    }
    own = entry->second.both;
  };
  for (const Flow& flow : flows_) {
    if (relaxed && flow.cells > cells) continue;
    const bool owned = has_variable(flow, relaxed);
    if (flow.variable.valid() && !owned)
      problem.variables[flow.variable] = std::vector<Cost>(flow.choices->all.size(), 0);
    if (owned) {
      problem.variables[flow.variable] = tables.own(flow);
      if (flow.producer.valid())
        problem.edges.push_back({flow.producer, flow.variable, tables.of_producer(flow)});
    }
    for (const Reader& reader : readers(flow)) {
      if (owned) {
        const CostTable& table = tables.of_reader(flow, reader);
        if (reader.variable.valid()) {
          problem.edges.push_back({flow.variable, reader.variable, table});
        } else {
          add(problem.variables[flow.variable], table);
        }
        continue;
      }
      if (!flow.producer.valid() && !reader.variable.valid()) continue;
      // Relaxed, each reader pays a share; together at most the dearest of their conversions.
      const auto parts = static_cast<Cost>(relaxed ? flow.readers : 1);
      const CostTable& table = tables.conversions(flow.value, flow.produced, reader.taken, parts);
      if (flow.producer.valid() && reader.variable.valid()) {
        problem.edges.push_back({flow.producer, reader.variable, table});
      } else {
        add(problem.variables[std::max(flow.producer, reader.variable)], table);
      }
    }
  }
  return problem;
}

IdVector<PassageId, Passage> SplitSpace::passages(bool relaxed, std::size_t cells) const {
  IdVector<PassageId, Passage> all;
  for (const Flow& flow : flows_) {
    const bool owned = has_variable(flow, relaxed);
    for (const Reader& reader : readers(flow)) {
      if (!flow.producer.valid() && !reader.variable.valid()) continue;
      Passage& passage = all.emplace_back(Passage{flow.producer, reader.variable, flow.value});
      passage.free = relaxed && flow.cells > cells;
      passage.given = !flow.producer.valid();
      passage.produced = owned && !passage.given ? &flow.choices->produced : flow.produced;
      passage.taken = reader.taken;
      passage.from = owned ? flow.variable : flow.producer;
      (passage.given ? passage.from : passage.to) = reader.variable;
    }
  }
  return all;
}

struct SpacePrices::State {
  SplitCosts costs;
  const SplitSpace& space;
  SplitSpace::Tables tables;
  State(const SplitSpace& of, SplitCosts own) : costs(std::move(own)), space(of), tables(space, costs) {}
};

SpacePrices::SpacePrices(const SplitSpace& space, SplitCosts costs)
    : state_(std::make_unique<State>(space, std::move(costs))) {}
SpacePrices::SpacePrices(SpacePrices&&) noexcept = default;
SpacePrices::~SpacePrices() = default;

Problem SpacePrices::problem(bool relaxed, std::size_t cells) {
  return state_->space.problem(state_->tables, state_->costs, relaxed, cells);
}

Cost SpacePrices::of(const Passage& passage, ChoiceId from, ChoiceId to) {
  const IdVector<ChoiceId, StateId>&produced = *passage.produced, &taken = *passage.taken;
  if (passage.given) return state_->tables.passage(passage.value, produced.front(), taken[from]);
  return state_->tables.passage(passage.value, produced[from],
                                passage.to.valid() ? taken[to] : taken.front());
}

const CostTable& SpacePrices::table(const Passage& passage) {
  return state_->tables.passage(passage.value, passage.produced, passage.taken);
}

}  // namespace braid::split
