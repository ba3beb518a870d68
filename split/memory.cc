#include "split/memory.h"

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

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool is_lazy(const Graph& graph, const GraphNode& node) {
  if (is_free(node.work.kind)) return true;
  if (!is_fused(node.work.kind)) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int v) { return v < 0 || graph.values[at(v)].readers.size() <= 1; });
}

}  // namespace

MemoryRows::MemoryRows(const Graph& graph, const SplitSpace& space,
                       std::function<std::int64_t(const ir::Expr&)> size)
    : graph_(graph), space_(space), size_(std::move(size)) {
  std::vector<int> variable_of(graph.nodes.size(), -1);
  int nodes = 0;
  for (; nodes < space.variables() && space.node_of(nodes) >= 0; ++nodes)
    variable_of[at(space.node_of(nodes))] = nodes;
  // Rows, and the tensors in memory that each value is computed from.
  std::vector<std::set<int>> roots(graph.values.size());
  std::vector<int> first(graph.values.size(), -1), last(graph.values.size(), -1);
  std::map<int, std::vector<std::pair<int, int>>> weights;  // variables and inputs that read them
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    if (node.compile_time) continue;
    const bool lazy = is_lazy(graph, node);
    std::set<int> read;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const int v = node.inputs[k];
      if (v < 0) continue;
      const GraphValue& value = graph.values[at(v)];
      if (value.constant) {
        weights[v].emplace_back(variable_of[n], static_cast<int>(k));
      } else {
        read.insert(roots[at(v)].begin(), roots[at(v)].end());
      }
    }
    if (!lazy) {
      for (const int r : read) last[at(r)] = rows_;
    }
    for (const int v : node.outputs) {
      if (v < 0 || graph.values[at(v)].readers.empty()) continue;
      if (lazy) {
        roots[at(v)] = read;
      } else {
        roots[at(v)] = {v};
        first[at(v)] = last[at(v)] = rows_;
      }
    }
    if (!lazy) ++rows_;
  }
  rows_ = std::max(rows_, 1);
  for (const auto& [value, readers] : weights) add_weight(value, readers);
  // Inputs and outputs of the program are in memory all the time; caches in the state of their variable.
  std::vector<int> cache_of(graph.values.size(), -1), returned_in(graph.values.size(), -1);
  for (const Passage& p : space.passages()) {
    if (p.producer >= nodes) cache_of[at(p.value)] = p.producer;
    if (p.reader >= nodes) returned_in[at(p.value)] = p.reader;
  }
  for (const int v : graph.inputs) add(v, cache_of[at(v)], true, 0, 0, rows_);
  for (const int v : graph.outputs) add(v, returned_in[at(v)], true, 0, 0, rows_);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const GraphValue& value = graph.values[v];
    if (first[v] < 0 || value.producer < 0) continue;
    const bool returned = std::any_of(value.readers.begin(), value.readers.end(),
                                      [](const GraphUse& use) { return use.node < 0; });
    if (returned) continue;
    const std::vector<int>& outputs = graph.nodes[at(value.producer)].outputs;
    const auto index = std::find(outputs.begin(), outputs.end(), static_cast<int>(v)) - outputs.begin();
    add(static_cast<int>(v), variable_of[at(value.producer)], true, static_cast<int>(index), first[v],
        last[v] + 1);
  }
}

std::int64_t MemoryRows::bytes_in(int value, const MeshSpec& state) const {
  SplitCosts sizes;
  sizes.size = size_;
  return static_cast<std::int64_t>(
      local_bytes(graph_.values[at(value)], sizes, parts_of(state, space_.mesh())));
}

void MemoryRows::add_weight(int value, const std::vector<std::pair<int, int>>& readers) {
  if (readers.size() == 1) return add(value, readers[0].first, false, readers[0].second, 0, rows_);
  std::map<MeshSpec, Item> forms;
  for (const auto& [variable, input] : readers) {
    for (int c = 0; c < space_.choices_of(variable); ++c) {
      const MeshSpec state = space_.taken_state(variable, c, input);
      Item& item = forms[state];
      if (item.states.empty()) item = {value, -1, {bytes_in(value, state)}, {state}, 0, rows_, {}};
      item.takers[variable].push_back(c);
    }
  }
  for (auto& [state, item] : forms) {
    if (forms.size() == 1) item.takers.clear();  // there is no choice
    if (item.bytes[0] > 0) items_.push_back(std::move(item));
  }
}

void MemoryRows::add(int value, int variable, bool output, int index, int begin, int end) {
  Item item{value, variable, {}, {}, begin, end, {}};
  const auto count = [&](const MeshSpec& spec) {
    item.states.push_back(spec);
    item.bytes.push_back(bytes_in(value, spec));
  };
  if (variable < 0) {
    count(MeshSpec(space_.mesh().axes.size()));
  } else {
    for (int c = 0; c < space_.choices_of(variable); ++c)
      count(output ? space_.produced_state(variable, c, index) : space_.taken_state(variable, c, index));
  }
  if (*std::max_element(item.bytes.begin(), item.bytes.end()) > 0) items_.push_back(std::move(item));
}

int MemoryRows::add_presence(Problem& problem, const Item& item) {
  const int there = static_cast<int>(problem.variables.size());
  problem.variables.push_back({0, 0});
  if (!problem.order.empty()) problem.order.push_back(there);
  for (const auto& [variable, choices] : item.takers) {
    std::vector<Cost> allowed(2 * problem.variables[at(variable)].size(), 0);
    for (const int choice : choices) allowed[2 * at(choice)] = kForbidden;
    problem.edges.push_back({variable, there, CostTable(std::move(allowed))});
  }
  return there;
}

void MemoryRows::limit(Problem& problem, std::int64_t bytes) const {
  // Bytes that no choice changes, as differences from row to row.
  std::vector<std::int64_t> fixed(at(rows_) + 1, 0);
  const int before = static_cast<int>(problem.limits.size());  // rows of other sizes
  for (const Item& item : items_) {
    if (item.variable >= 0) {
      problem.usages.push_back({item.variable, item.bytes, {{before + item.begin, before + item.end}}});
      continue;
    }
    if (!item.takers.empty()) {
      if (item.bytes[0] < bytes / kSmall) continue;
      const int there = add_presence(problem, item);
      problem.usages.push_back({there, {0, item.bytes[0]}, {{before + item.begin, before + item.end}}});
      continue;
    }
    fixed[at(item.begin)] += item.bytes[0];
    fixed[at(item.end)] -= item.bytes[0];
  }
  std::int64_t sum = 0;
  for (int row = 0; row < rows_; ++row) {
    sum += fixed[at(row)];
    problem.limits.push_back(bytes - sum);
  }
}

std::int64_t MemoryRows::bytes_of(const Item& item, const std::vector<int>& choice) const {
  const auto taken = [&](const auto& taker) {
    return std::ranges::find(taker.second, choice[at(taker.first)]) != taker.second.end();
  };
  if (!item.takers.empty() && std::ranges::none_of(item.takers, taken)) return 0;
  return item.bytes[item.variable < 0 ? 0 : at(choice[at(item.variable)])];
}

int MemoryRows::fullest(const std::vector<int>& choice) const {
  std::vector<std::int64_t> step(at(rows_) + 1, 0);
  for (const Item& item : items_) {
    step[at(item.begin)] += bytes_of(item, choice);
    step[at(item.end)] -= bytes_of(item, choice);
  }
  for (int row = 1; row < rows_; ++row) step[at(row)] += step[at(row - 1)];
  return static_cast<int>(std::max_element(step.begin(), step.begin() + rows_) - step.begin());
}

std::int64_t MemoryRows::of_plan(const std::vector<int>& choice) const {
  const int row = fullest(choice);
  std::int64_t sum = 0;
  for (const Item& item : items_) {
    if (item.begin <= row && row < item.end) sum += bytes_of(item, choice);
  }
  return sum;
}

std::vector<std::int64_t> MemoryRows::counts_in(const std::vector<int>& rows) const {
  std::vector<std::int64_t> before(at(rows_) + 1, 0);  // how many of them
  for (const int row : rows) ++before[at(row) + 1];
  for (int row = 0; row < rows_; ++row) before[at(row) + 1] += before[at(row)];
  std::vector<std::int64_t> counts;
  for (const Item& item : items_) counts.push_back(before[at(item.end)] - before[at(item.begin)]);
  return counts;
}

Cost MemoryRows::add_costs(Problem& problem,
                           const std::function<Cost(const Item& item, std::int64_t bytes)>& cost) const {
  Cost fixed = 0;
  for (const Item& item : items_) {
    if (item.variable >= 0) {
      std::vector<Cost>& costs = problem.variables[at(item.variable)].edit();
      for (std::size_t c = 0; c < costs.size(); ++c)
        if (costs[c] != kForbidden) costs[c] += cost(item, item.bytes[c]);
    } else if (!item.takers.empty()) {
      problem.variables[at(add_presence(problem, item))] = {0, cost(item, item.bytes[0])};
    } else {
      fixed += cost(item, item.bytes[0]);
    }
  }
  return fixed;
}

MemoryRows::Weighted MemoryRows::weighted(const Problem& problem, const std::vector<int>& rows) const {
  const std::vector<std::int64_t> counts = counts_in(rows);
  // Plans with equal bytes in these rows are told apart by the bytes over all rows. That part adds up to less
  // than one byte in one row.
  double most = 0, most_of_all = 0;
  for (const Item& item : items_) {
    const auto bytes = static_cast<double>(*std::max_element(item.bytes.begin(), item.bytes.end()));
    most += bytes * static_cast<double>(rows.size());
    most_of_all += bytes * (item.end - item.begin);
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
  result.fixed = add_costs(only, [&](const Item& item, std::int64_t bytes) {
    const Cost in_all = static_cast<Cost>(share * static_cast<double>(bytes) * (item.end - item.begin));
    return result.scale * counts[static_cast<std::size_t>(&item - items_.data())] * bytes + in_all;
  });
  return result;
}

std::vector<std::vector<int>> MemoryRows::at_prices(const Problem& problem,
                                                    const SolveOptions& options) const {
  std::vector<std::vector<int>> all;
  std::vector<int> rows;     // the fullest rows of the plans so far, which share the price equally
  double price_of_byte = 0;  // the price of a byte in all of these rows together
  constexpr int kPrices = 9, kStep = 3;
  // A fraction of the price at which the bytes of the cheapest plan cost as much as all else.
  constexpr double kLowest = 1.0 / 64;
  for (int k = 0; k < kPrices; ++k) {
    Problem priced = problem;
    const std::vector<std::int64_t> counts = counts_in(rows);
    const double share = price_of_byte / static_cast<double>(rows.size() + 1);
    add_costs(priced, [&](const Item& item, std::int64_t bytes) {
      const std::int64_t count = counts[static_cast<std::size_t>(&item - items_.data())];
      return static_cast<Cost>(share * static_cast<double>(count) * static_cast<double>(bytes));
    });
    if (largest_total(priced) > kLargestTotal) break;
    const Solution solution = solve(priced, options);
    if (!solution.feasible()) break;
    std::vector<int> choice(solution.choice.begin(),
                            solution.choice.begin() + static_cast<std::ptrdiff_t>(problem.variables.size()));
    if (k == 0)
      price_of_byte = kLowest * static_cast<double>(price(problem, choice)) /
                      static_cast<double>(std::max<std::int64_t>(of_plan(choice), 1));
    price_of_byte *= kStep;
    rows.push_back(fullest(choice));
    if (std::ranges::find(all, choice) == all.end()) all.push_back(std::move(choice));
  }
  return all;
}

std::vector<std::int64_t> MemoryRows::smallest() const {
  std::vector<std::int64_t> bytes(at(rows_) + 1, 0);
  for (const Item& item : items_) {
    // All readers of a shared weight may take it in another state.
    const std::int64_t smallest = item.takers.empty() ? std::ranges::min(item.bytes) : 0;
    bytes[at(item.begin)] += smallest;
    bytes[at(item.end)] -= smallest;
  }
  for (int row = 1; row < rows_; ++row) bytes[at(row)] += bytes[at(row - 1)];
  bytes.resize(at(rows_));
  return bytes;
}

std::int64_t MemoryRows::of_smallest() const { return std::ranges::max(smallest()); }

LeastMemory MemoryRows::least(const Problem& problem, const SolveOptions& options,
                              std::optional<std::int64_t> limit) const {
  const std::vector<std::int64_t> smallest = this->smallest();
  const auto most = std::ranges::max_element(smallest);
  std::vector<int> rows = {static_cast<int>(most - smallest.begin())};
  LeastMemory least{*most, std::numeric_limits<std::int64_t>::max(), {}};

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
    std::vector<int> choice(solution.choice.begin(),
                            solution.choice.begin() + static_cast<std::ptrdiff_t>(problem.variables.size()));
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
    const auto count = static_cast<std::int64_t>(rows.size());
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

std::vector<std::string> MemoryRows::largest(const std::vector<int>& choice, std::size_t count) const {
  const int row = fullest(choice);
  std::vector<const Item*> there;
  for (const Item& item : items_) {
    if (item.begin <= row && row < item.end) there.push_back(&item);
  }
  std::stable_sort(there.begin(), there.end(),
                   [&](const Item* a, const Item* b) { return bytes_of(*a, choice) > bytes_of(*b, choice); });
  std::vector<std::string> lines;
  for (const Item* item : there) {
    if (lines.size() == count) break;
    const MeshSpec& state = item->states[item->variable < 0 ? 0 : at(choice[at(item->variable)])];
    lines.push_back(fmt::format("'{}' {}: {}", graph_.values[at(item->value)].name,
                                to_string(state, space_.mesh()),
                                analysis::format_bytes(bytes_of(*item, choice))));
  }
  return lines;
}

LeastMemory least_in_turn(const Graph& graph, const SplitSpace& space, const SplitCosts& costs,
                          std::int64_t limit, const std::vector<int>& from, const SolveOptions& options) {
  const MemoryRows all(graph, space, costs.size);
  LeastMemory least{all.of_smallest(), std::numeric_limits<std::int64_t>::max(), {}};
  if (least.bytes > limit) limit = 0;  // what is asked is the least
  const int axes = space.mesh().size();
  // The states on one axis limit those on the others, so where a descent ends depends on its start and on the
  // order of axes.
  const auto descend = [&](std::vector<int> known, bool last_first) {
    std::int64_t reached = known.empty() ? std::numeric_limits<std::int64_t>::max() : all.of_plan(known);
    for (bool smaller = true; smaller && reached > limit;) {
      smaller = false;
      for (int k = 0; k < axes && reached > limit; ++k) {
        const SplitSpace one(space, last_first ? axes - 1 - k : k, known);
        const LeastMemory own = MemoryRows(graph, one, costs.size).least(one.problem(costs), options);
        if (own.choice.empty()) continue;
        std::vector<int> choice = space.choice_of(one, own.choice);
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
