// The costs of a space's choices as tables of a problem (space.h). Equal layers share theirs.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/error.h"
#include "split/conversion_costs.h"
#include "split/space.h"

namespace braid::split {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Cost sum(Cost a, Cost b) { return a == kForbidden || b == kForbidden ? kForbidden : a + b; }

// The collectives that the local form of a node has in it.
Cost inner_cost(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
                const SplitCosts& costs) {
  Cost sum = 0;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (axes[k]->letter < 0) continue;
    const int ranks = mesh.axes[k].size;
    for (ConversionStep& step : node.operation->inner(graph, node, *axes[k], ranks)) {
      step.axis = static_cast<int>(k);
      step.stride = mesh.stride(step.axis);
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
std::vector<CostTable> SplitSpace::node_costs(const SplitCosts& costs) const {
  std::vector<CostTable> all(nodes_.size());
  std::map<std::pair<const void*, int>, CostTable> known;
  for (std::size_t v = 0; v < nodes_.size(); ++v) {
    const std::vector<const Choice*>& choices = *choices_[v];
    if (nodes_[v] < 0) {
      all[v] = std::vector<Cost>(choices.size(), 0);
      continue;
    }
    const GraphNode& node = graph_.nodes[at(nodes_[v])];
    if (!costs.key) {
      std::vector<Cost>& own = all[v].edit();
      for (const Choice* choice : choices) own.push_back(cost_of(graph_, node, choice->axes, mesh_, costs));
      continue;
    }
    const int key = costs.key(graph_, node);
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

std::int64_t SplitSpace::bytes(int value, const SplitCosts& costs) const {
  std::int64_t elements = 1;
  for (const ir::Expr& size : graph_.values[at(value)].sizes) elements *= costs.size(size);
  return elements * ir::size_of(graph_.values[at(value)].dtype);
}

std::optional<std::vector<ConversionStep>> SplitSpace::steps(int value, int from, int to,
                                                             const SplitCosts& costs) const {
  const GraphValue& v = graph_.values[at(value)];
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
        shape_of_(at(space.graph_.value_kinds), kUnknown) {}

  // Conversions from each state of one list into each of the other, row by row, divided by `divisor`.
  const CostTable& conversions(int value, States from, States to, Cost divisor = 1) {
    const auto [entry, fresh] = conversions_.try_emplace(
        {shape(value), static_cast<std::intptr_t>(divisor), address(from), address(to)});
    if (!fresh) return entry->second;
    // Many choices take or produce the same state.
    const Distinct &rows = distinct(from), &columns = distinct(to);
    std::vector<Cost> of_states;
    of_states.reserve(rows.states.size() * columns.states.size());
    for (const int i : rows.states) {
      for (const int j : columns.states) {
        const Cost cost = conversion(value, i, j);
        of_states.push_back(cost == kForbidden ? kForbidden : cost / divisor);
      }
    }
    std::vector<Cost> costs;
    costs.reserve(from->size() * to->size());
    for (const int i : rows.number) {
      const Cost* row = &of_states[at(i) * columns.states.size()];
      for (const int j : columns.number) costs.push_back(row[j]);
    }
    return entry->second = std::move(costs);
  }
  // The same, and nothing where it is forbidden.
  const CostTable& passage(int value, States from, States to) {
    const CostTable& table = conversions(value, from, to);
    const auto [entry, fresh] = passages_.try_emplace(table.address(), table);
    if (fresh && std::ranges::find(table, kForbidden) != table.end())
      std::ranges::replace(entry->second.edit(), kForbidden, Cost{0});
    return entry->second;
  }
  Cost passage(int value, int from, int to) {
    const Cost cost = conversion(value, from, to);
    return cost == kForbidden ? 0 : cost;
  }

  // Tables of a tensor with a variable: the costs of its choices, and the choices that its producer and a
  // reader allow.
  const CostTable& own(const Flow& flow) {
    const auto [entry, fresh] = own_.try_emplace({address(flow.choices), shape(flow.value)});
    if (!fresh) return entry->second;
    std::vector<Cost>& costs = entry->second.edit();
    for (const ValueChoice& choice : flow.choices->all) {
      Cost cost = 0;
      for (const int to : choice.converted) cost = sum(cost, conversion(flow.value, choice.produced, to));
      costs.push_back(cost);
    }
    return entry->second;
  }
  const CostTable& of_producer(const Flow& flow) {
    const auto [entry, fresh] = allowed_.try_emplace({address(flow.choices), address(flow.produced), 0});
    if (!fresh) return entry->second;
    std::vector<Cost> costs;
    costs.reserve(flow.produced->size() * flow.choices->all.size());
    for (const int state : *flow.produced) {
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
    std::vector<char> offered(space_.states_->specs.size(), 0);
    for (const ValueChoice& choice : flow.choices->all) {
      offered[at(choice.produced)] = 1;
      for (const int state : choice.converted) offered[at(state)] = 1;
      for (const int state : *reader.taken) costs.push_back(offered[at(state)] != 0 ? 0 : kForbidden);
      offered[at(choice.produced)] = 0;
      for (const int state : choice.converted) offered[at(state)] = 0;
    }
    return entry->second = std::move(costs);
  }

 private:
  static std::intptr_t address(const void* what) { return reinterpret_cast<std::intptr_t>(what); }

  Cost conversion(int value, int from, int to) {
    if (from == to) return 0;
    const int of = shape(value);
    if (of == kPinned) return kForbidden;
    return costs_of_conversions_(of, from, to).value_or(kForbidden);
  }

  // A number such that conversions of all values with that number cost the same.
  int shape(int value) {
    const GraphValue& v = space_.graph_.values[at(value)];
    int& known = shape_of_[at(v.kind)];
    if (known != kUnknown) return known;
    if (v.pinned) return known = kPinned;
    return known = costs_of_conversions_.tensor(v.dtype, space_.bytes(value, costs_), v.sizes);
  }

  // The states of a list once each, and which of these every one is.
  struct Distinct {
    std::vector<int> states, number;
  };
  const Distinct& distinct(States list) {
    const auto [entry, fresh] = distinct_.try_emplace(list);
    if (!fresh) return entry->second;
    std::vector<int> number(space_.states_->specs.size(), -1);
    for (const int state : *list) {
      if (number[at(state)] < 0) {
        number[at(state)] = static_cast<int>(entry->second.states.size());
        entry->second.states.push_back(state);
      }
      entry->second.number.push_back(number[at(state)]);
    }
    return entry->second;
  }

  const SplitSpace& space_;
  const SplitCosts& costs_;
  static constexpr int kPinned = -1, kUnknown = -2;
  ConversionCosts costs_of_conversions_;
  std::vector<int> shape_of_;  // per kind of values
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
  problem.variables.resize(at(variables_));
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
    if (flow.variable >= 0 && !owned)
      problem.variables[at(flow.variable)] = std::vector<Cost>(flow.choices->all.size(), 0);
    if (owned) {
      problem.variables[at(flow.variable)] = tables.own(flow);
      if (flow.producer >= 0)
        problem.edges.push_back({flow.producer, flow.variable, tables.of_producer(flow)});
    }
    for (const Reader& reader : readers(flow)) {
      if (owned) {
        const CostTable& table = tables.of_reader(flow, reader);
        if (reader.variable >= 0) {
          problem.edges.push_back({flow.variable, reader.variable, table});
        } else {
          add(problem.variables[at(flow.variable)], table);
        }
        continue;
      }
      if (flow.producer < 0 && reader.variable < 0) continue;
      // Relaxed, each reader pays a share; together at most the dearest of their conversions.
      const auto parts = static_cast<Cost>(relaxed ? flow.readers : 1);
      const CostTable& table = tables.conversions(flow.value, flow.produced, reader.taken, parts);
      if (flow.producer >= 0 && reader.variable >= 0) {
        problem.edges.push_back({flow.producer, reader.variable, table});
      } else {
        add(problem.variables[at(std::max(flow.producer, reader.variable))], table);
      }
    }
  }
  return problem;
}

std::vector<Passage> SplitSpace::passages(bool relaxed, std::size_t cells) const {
  std::vector<Passage> all;
  for (const Flow& flow : flows_) {
    const bool owned = has_variable(flow, relaxed);
    for (const Reader& reader : readers(flow)) {
      if (flow.producer < 0 && reader.variable < 0) continue;
      Passage& passage = all.emplace_back(Passage{flow.producer, reader.variable, flow.value});
      passage.free = relaxed && flow.cells > cells;
      passage.given = flow.producer < 0;
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

Cost SpacePrices::of(const Passage& passage, int from, int to) {
  const std::vector<int>&produced = *passage.produced, &taken = *passage.taken;
  if (passage.given) return state_->tables.passage(passage.value, produced[0], taken[at(from)]);
  return state_->tables.passage(passage.value, produced[at(from)], taken[passage.to < 0 ? 0 : at(to)]);
}

const CostTable& SpacePrices::table(const Passage& passage) {
  return state_->tables.passage(passage.value, passage.produced, passage.taken);
}

}  // namespace braid::split
