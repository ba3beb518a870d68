#include "split/memory_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "analysis/measure.h"
#include "split/machine_costs.h"
#include "split/work.h"

namespace braid::split {

namespace {

// The part of a limit below which a shared weight is not counted. Tables that all layers read, such as tables
// of positions, would tie all layers together for next to nothing.
constexpr int kSmall = 1024;

bool is_lazy(const Graph& graph, const GraphNode& node) {
  if (is_free(node.work.kind)) return true;
  if (!is_fused(node.work.kind)) return false;
  return std::ranges::all_of(node.outputs,
                             [&](ValueId v) { return !v.valid() || graph.values[v].readers.size() <= 1; });
}

}  // namespace

// The rows in which each value is in memory, and the readers of weights. A value in no row has no first one.
struct MemoryRows::Lives {
  IdVector<ValueId, RowId> first, last;
  std::map<ValueId, std::vector<std::pair<VariableId, int>>> weights;  // variables and inputs that read them
};

MemoryRows::MemoryRows(const Graph& graph, const SplitSpace& space,
                       std::function<std::int64_t(const ir::Expr&)> size)
    : graph_(graph), space_(space), size_(std::move(size)) {
  const Lives lives = find_lives();
  const RowRange all{*rows_.begin(), *rows_.end()};
  for (const auto& [value, readers] : lives.weights) add_weight(value, readers);
  // Inputs and outputs of the program are in memory all the time; caches in the state of their variable.
  IdVector<ValueId, VariableId> cache_of(graph.values.ids()), returned_in(graph.values.ids());
  const VariableId caches = *space.node_variables().end();
  for (const Passage& p : space.passages()) {
    if (p.producer >= caches) cache_of[p.value] = p.producer;
    if (p.reader >= caches) returned_in[p.value] = p.reader;
  }
  for (const ValueId v : graph.inputs) add(v, cache_of[v], true, 0, all);
  for (const ValueId v : graph.outputs) add(v, returned_in[v], true, 0, all);
  for (const ValueId v : graph.values.ids()) {
    const GraphValue& value = graph.values[v];
    if (!lives.first[v].valid() || !value.producer.valid()) continue;
    if (std::ranges::any_of(value.readers, [](const GraphUse& use) { return !use.node.valid(); })) continue;
    add(v, space.variable_of(value.producer), true, graph.nodes[value.producer].output_of(v),
        {lives.first[v], lives.last[v] + 1});
  }
}

// Makes the rows.
MemoryRows::Lives MemoryRows::find_lives() {
  Lives lives;
  lives.first.assign(graph_.values.ids(), {});
  lives.last.assign(graph_.values.ids(), {});
  IdVector<ValueId, std::set<ValueId>> roots(graph_.values.ids());  // what each is computed from in memory
  RowId row{0};
  for (const NodeId n : graph_.nodes.ids()) {
    const GraphNode& node = graph_.nodes[n];
    if (node.compile_time) continue;
    const bool lazy = is_lazy(graph_, node);
    std::set<ValueId> read;
    for (int k = 0; k < count_of(node.inputs); ++k) {
      const ValueId v = node.inputs[k];
      if (!v.valid()) continue;
      if (graph_.values[v].constant) {
        lives.weights[v].emplace_back(space_.variable_of(n), k);
      } else {
        read.insert(roots[v].begin(), roots[v].end());
      }
    }
    if (!lazy) {
      for (const ValueId r : read) lives.last[r] = row;
    }
    for (const ValueId v : node.outputs) {
      if (!v.valid() || graph_.values[v].readers.empty()) continue;
      if (lazy) {
        roots[v] = read;
      } else {
        roots[v] = {v};
        lives.first[v] = lives.last[v] = row;
      }
    }
    if (!lazy) ++row;
  }
  rows_ = {RowId{0}, std::max(row, RowId{1})};
  return lives;
}

std::int64_t MemoryRows::bytes_in(ValueId value, const MeshSpec& state) const {
  SplitCosts sizes;
  sizes.size = size_;
  return static_cast<std::int64_t>(local_bytes(graph_.values[value], sizes, parts_of(state, space_.mesh())));
}

void MemoryRows::add_weight(ValueId value, const std::vector<std::pair<VariableId, int>>& readers) {
  const RowRange all{*rows_.begin(), *rows_.end()};
  if (readers.size() == 1) return add(value, readers[0].first, false, readers[0].second, all);
  std::map<MeshSpec, Item> forms;
  for (const auto& [variable, input] : readers) {
    for (const ChoiceId c : space_.choices_of(variable)) {
      const MeshSpec state = space_.taken_state(variable, c, input);
      Item& item = forms[state];
      if (item.states.empty()) item = {value, {}, {bytes_in(value, state)}, {state}, all, {}};
      item.takers[variable].push_back(c);
    }
  }
  for (auto& [state, item] : forms) {
    if (forms.size() == 1) item.takers.clear();  // there is no choice
    if (item.bytes.front() > 0) items_.push_back(std::move(item));
  }
}

void MemoryRows::add(ValueId value, VariableId variable, bool output, int index, const RowRange& rows) {
  Item item{value, variable, {}, {}, rows, {}};
  const auto count = [&](const MeshSpec& spec) {
    item.states.push_back(spec);
    item.bytes.push_back(bytes_in(value, spec));
  };
  if (!variable.valid()) {
    count(MeshSpec(space_.mesh().axes.size()));
  } else {
    for (const ChoiceId c : space_.choices_of(variable))
      count(output ? space_.produced_state(variable, c, index) : space_.taken_state(variable, c, index));
  }
  if (std::ranges::max(item.bytes) > 0) items_.push_back(std::move(item));
}

VariableId MemoryRows::add_presence(Problem& problem, const Item& item) {
  const VariableId there = problem.variables.end_id();
  problem.variables.push_back({0, 0});
  if (!problem.order.empty()) problem.order.push_back(there);
  for (const auto& [variable, choices] : item.takers) {
    std::vector<Cost> allowed(2 * problem.variables[variable].size(), 0);
    for (const ChoiceId choice : choices) allowed[2 * ir::offset_of(choice)] = kForbidden;
    problem.edges.push_back({variable, there, CostTable(std::move(allowed))});
  }
  return there;
}

void MemoryRows::limit(Problem& problem, std::int64_t bytes) const {
  solver::RowSums fixed(rows_);                 // bytes that no choice changes
  const int before = count_of(problem.limits);  // rows of other sizes
  for (const Item& item : items_) {
    const RowRange rows{item.rows.begin + before, item.rows.end + before};
    if (item.variable.valid()) {
      problem.usages.push_back({item.variable, item.bytes, {rows}});
    } else if (item.takers.empty()) {
      fixed.add(item.rows, item.bytes.front());
    } else if (item.bytes.front() >= bytes / kSmall) {
      const VariableId there = add_presence(problem, item);
      problem.usages.push_back({there, {0, item.bytes.front()}, {rows}});
    }
  }
  for (const std::int64_t taken : fixed.take()) problem.limits.push_back(bytes - taken);
}

ChoiceId MemoryRows::choice_for(const Item& item, const Assignment& choice) {
  return item.variable.valid() ? choice[item.variable] : ChoiceId{0};
}

std::int64_t MemoryRows::bytes_of(const Item& item, const Assignment& choice) const {
  const auto taken = [&](const auto& taker) {
    return std::ranges::find(taker.second, choice[taker.first]) != taker.second.end();
  };
  if (!item.takers.empty() && std::ranges::none_of(item.takers, taken)) return 0;
  return item.bytes[choice_for(item, choice)];
}

RowId MemoryRows::fullest(const Assignment& choice) const {
  solver::RowSums sums(rows_);
  for (const Item& item : items_) sums.add(item.rows, bytes_of(item, choice));
  const IdVector<RowId, std::int64_t> bytes = sums.take();
  return *std::ranges::max_element(rows_, {}, [&](RowId row) { return bytes[row]; });
}

std::int64_t MemoryRows::of_plan(const Assignment& choice) const {
  const RowId row = fullest(choice);
  std::int64_t sum = 0;
  for (const Item& item : items_) {
    if (item.rows.has(row)) sum += bytes_of(item, choice);
  }
  return sum;
}

IdVector<MemoryRows::ItemId, std::int64_t> MemoryRows::counts_in(const std::vector<RowId>& rows) const {
  IdVector<RowId, std::int64_t> often(rows_, 0);
  for (const RowId row : rows) ++often[row];
  const IdVector<RowId, std::int64_t> before = solver::sums_before(often);
  IdVector<ItemId, std::int64_t> counts;
  for (const Item& item : items_) counts.push_back(solver::sum_in(item.rows, before));
  return counts;
}

Cost MemoryRows::add_costs(Problem& problem,
                           const std::function<Cost(ItemId item, std::int64_t bytes)>& cost) const {
  Cost fixed = 0;
  for (const ItemId id : items_.ids()) {
    const Item& item = items_[id];
    if (item.variable.valid()) {
      std::vector<Cost> costs;
      for (const ChoiceId c : item.bytes.ids()) {
        const Cost own = problem.variables[item.variable][c];
        costs.push_back(own == kForbidden ? kForbidden : own + cost(id, item.bytes[c]));
      }
      problem.variables[item.variable] = std::move(costs);
    } else if (!item.takers.empty()) {
      problem.variables[add_presence(problem, item)] = {0, cost(id, item.bytes.front())};
    } else {
      fixed += cost(id, item.bytes.front());
    }
  }
  return fixed;
}

MemoryRows::Weighted MemoryRows::weighted(const Problem& problem, const std::vector<RowId>& rows) const {
  const IdVector<ItemId, std::int64_t> counts = counts_in(rows);
  // Plans with equal bytes in these rows are told apart by the bytes over all rows. That part adds up to less
  // than one byte in one row.
  double most = 0, most_of_all = 0;
  for (const Item& item : items_) {
    const auto bytes = static_cast<double>(std::ranges::max(item.bytes));
    most += bytes * static_cast<double>(rows.size());
    most_of_all += bytes * (item.rows.end - item.rows.begin);
  }
  Weighted result;
  while (result.scale < (Cost{1} << 30) && most * static_cast<double>(result.scale) < 0x1p53)
    result.scale *= 2;
  const double share = static_cast<double>(result.scale - 1) / (most_of_all + 1);

  const auto allowed = [](const CostTable& costs) {
    std::vector<Cost> own(costs.costs());
    for (Cost& c : own) c = c == kForbidden ? kForbidden : 0;
    return own;
  };
  Problem& only = result.problem;
  only.order = problem.order;
  for (const CostTable& costs : problem.variables) only.variables.emplace_back(allowed(costs));
  std::map<const void*, CostTable> tables;  // shared ones stay shared
  for (const Edge& edge : problem.edges) {
    const auto [entry, fresh] = tables.try_emplace(edge.costs.address());
    if (fresh && std::ranges::find(edge.costs, kForbidden) != edge.costs.end())
      entry->second = CostTable(allowed(edge.costs));
    if (!entry->second.empty()) only.edges.push_back({edge.from, edge.to, entry->second});
  }
  result.fixed = add_costs(only, [&](ItemId item, std::int64_t bytes) {
    const RowRange& own = items_[item].rows;
    const Cost in_all = static_cast<Cost>(share * static_cast<double>(bytes) * (own.end - own.begin));
    return result.scale * counts[item] * bytes + in_all;
  });
  return result;
}

std::vector<Assignment> MemoryRows::at_prices(const Problem& problem, const SolveOptions& options) const {
  std::vector<Assignment> all;
  std::vector<RowId> rows;   // the fullest rows of the plans so far, which share the price equally
  double price_of_byte = 0;  // the price of a byte in all of these rows together
  constexpr int kPrices = 9, kStep = 3;
  // A fraction of the price at which the bytes of the cheapest plan cost as much as all else.
  constexpr double kLowest = 1.0 / 64;
  for (int k = 0; k < kPrices; ++k) {
    Problem priced = problem;
    const IdVector<ItemId, std::int64_t> counts = counts_in(rows);
    const double share = price_of_byte / static_cast<double>(rows.size() + 1);
    add_costs(priced, [&](ItemId item, std::int64_t bytes) {
      return static_cast<Cost>(share * static_cast<double>(counts[item]) * static_cast<double>(bytes));
    });
    if (largest_total(priced) > kLargestTotal) break;
    Solution solution = solve(priced, options);
    if (!solution.feasible()) break;
    Assignment& choice = solution.choice;
    choice.resize(problem.variables.size());  // without presences
    if (k == 0)
      price_of_byte = kLowest * static_cast<double>(price(problem, choice)) /
                      static_cast<double>(std::max<std::int64_t>(of_plan(choice), 1));
    price_of_byte *= kStep;
    rows.push_back(fullest(choice));
    if (std::ranges::find(all, choice) == all.end()) all.push_back(std::move(choice));
  }
  return all;
}

IdVector<RowId, std::int64_t> MemoryRows::smallest() const {
  solver::RowSums bytes(rows_);
  for (const Item& item : items_) {
    // All readers of a shared weight may take it in another state.
    if (item.takers.empty()) bytes.add(item.rows, std::ranges::min(item.bytes));
  }
  return bytes.take();
}

std::int64_t MemoryRows::of_smallest() const { return std::ranges::max(smallest()); }

LeastMemory MemoryRows::least(const Problem& problem, const SolveOptions& options,
                              std::optional<std::int64_t> limit) const {
  const IdVector<RowId, std::int64_t> smallest = this->smallest();
  std::vector<RowId> rows = {*std::ranges::max_element(rows_, {}, [&](RowId row) { return smallest[row]; })};
  LeastMemory least{smallest[rows[0]], std::numeric_limits<std::int64_t>::max(), {}};

  // More could not be added up as costs.
  constexpr double kMostBytes = 0x1p50;
  double bytes_of_all = 0;
  for (const Item& item : items_) bytes_of_all += static_cast<double>(std::ranges::max(item.bytes));
  if (bytes_of_all > kMostBytes) return least;

  SolveOptions left = options;
  const auto solved = [&](const Problem& own) {
    const Solution solution = solve(own, left);
    left.budget -= solution.cells;
    if (!solution.feasible()) return solution;
    Assignment choice = solution.choice;
    choice.resize(problem.variables.size());
    const std::int64_t bytes = of_plan(choice);
    if (bytes < least.reached) {
      least.reached = bytes;
      least.choice = std::move(choice);
    }
    return solution;
  };
  const auto done = [&] {
    return least.proved() || left.budget <= 0 || (limit && (least.bytes > *limit || least.reached <= *limit));
  };
  // A plan takes at least the least mean over some rows: those that were the fullest in plans found before.
  constexpr std::size_t kMostRows = 16;
  while (!done() && rows.size() <= kMostRows) {
    const Weighted mean = weighted(problem, rows);
    const Solution solution = solved(mean.problem);
    if (solution.status == Status::kInfeasible) break;
    const std::int64_t count = std::ssize(rows);
    const std::int64_t sum = (solution.bound + mean.fixed) / mean.scale;
    least.bytes = std::max(least.bytes, (sum + count - 1) / count);
    if (!solution.feasible()) break;
    rows.push_back(fullest(solution.choice));
  }
  // Closes the gap between both by halving it.
  const Problem some = weighted(problem, rows).problem;
  left.enough = kLargestTotal;  // any plan
  while (!done() && !least.choice.empty()) {
    const std::int64_t middle = limit ? *limit : least.bytes + (least.reached - least.bytes) / 2;
    Problem limited = some;
    this->limit(limited, middle);
    const Solution solution = solved(limited);
    if (solution.status == Status::kInfeasible) {
      least.bytes = middle + 1;
    } else if (least.reached > middle) {
      break;  // the budget is spent, or what `limit` leaves out counts
    }
  }
  return least;
}

std::vector<std::string> MemoryRows::largest(const Assignment& choice, std::size_t count) const {
  const RowId row = fullest(choice);
  std::vector<const Item*> there;
  for (const Item& item : items_) {
    if (item.rows.has(row)) there.push_back(&item);
  }
  std::stable_sort(there.begin(), there.end(),
                   [&](const Item* a, const Item* b) { return bytes_of(*a, choice) > bytes_of(*b, choice); });
  std::vector<std::string> lines;
  for (const Item* item : there) {
    if (lines.size() == count) break;
    const MeshSpec& state = item->states[choice_for(*item, choice)];
    lines.push_back(fmt::format("'{}' {}: {}", graph_.values[item->value].name,
                                to_string(state, space_.mesh()),
                                analysis::format_bytes(bytes_of(*item, choice))));
  }
  return lines;
}

LeastMemory least_in_turn(const Graph& graph, const SplitSpace& space, const SplitCosts& costs,
                          std::int64_t limit, const Assignment& from, const SolveOptions& options) {
  const MemoryRows all(graph, space, costs.size);
  LeastMemory least{all.of_smallest(), std::numeric_limits<std::int64_t>::max(), {}};
  if (least.bytes > limit) limit = 0;  // what is asked is the least
  const int axes = space.mesh().size();
  // The states on one axis limit those on the others, so where a descent ends depends on its start and on the
  // order of axes.
  const auto descend = [&](Assignment known, bool last_first) {
    std::int64_t reached = known.empty() ? std::numeric_limits<std::int64_t>::max() : all.of_plan(known);
    for (bool smaller = true; smaller && reached > limit;) {
      smaller = false;
      for (int k = 0; k < axes && reached > limit; ++k) {
        const SplitSpace one(space, last_first ? axes - 1 - k : k, known);
        const LeastMemory own = MemoryRows(graph, one, costs.size).least(one.problem(costs), options);
        if (own.choice.empty()) continue;
        Assignment choice = space.choice_of(one, own.choice);
        const std::int64_t bytes = all.of_plan(choice);
        if (bytes > reached) continue;
        smaller = smaller || bytes < reached;
        reached = bytes;
        known = std::move(choice);
      }
    }
    if (reached >= least.reached) return;
    least.reached = reached;
    least.choice = std::move(known);
  };
  const auto enough = [&] { return least.reached <= std::max(limit, least.bytes); };
  if (const SplitSpace alike = SplitSpace::alike(space); !alike.large()) {
    const LeastMemory own = MemoryRows(graph, alike, costs.size).least(alike.problem(costs), options);
    if (!own.choice.empty()) descend(space.choice_of(alike, own.choice), true);
  }
  if (!enough()) descend({}, true);
  if (!enough()) descend({}, false);
  if (!enough() && !from.empty()) descend(from, true);
  if (!enough() && !from.empty()) descend(from, false);
  return least;
}

}  // namespace braid::split
