// Exact elimination (bucket elimination, Dechter 1999): removes variables one after another; each leaves a
// table over its neighbours. The variable with the smallest table comes next; of equal ones, that around
// which the least has been removed. In a chain of equal layers these are every second border, then every
// second one of those left, and so on. Results are kept by the content of the tables that they were computed
// from. So equal layers are computed once, and a chain takes as many tables as its length has bits.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <ranges>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "solver/minimise.h"
#include "solver/network.h"

namespace braid::solver {

namespace {

// A table over several variables, row-major. Tables of equal content have one number.
struct Table {
  std::shared_ptr<const std::vector<Cost>> costs;
  std::size_t number = 0;
};
struct Part {
  std::vector<VariableId> variables;
  Table table;
};

// The costs with their variables in another order: `order` has the old places.
std::vector<Cost> in_order(const std::vector<Cost>& costs, const std::vector<std::size_t>& sizes,
                           const std::vector<std::size_t>& order) {
  std::vector<std::size_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::vector<Cost> result;
  result.reserve(costs.size());
  std::vector<std::size_t> at(sizes.size(), 0);
  std::size_t cell = 0;
  while (result.size() < costs.size()) {
    result.push_back(costs[cell]);
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::size_t k = order[i];
      cell += strides[k];
      if (++at[k] < sizes[k]) break;
      cell -= strides[k] * sizes[k];
      at[k] = 0;
    }
  }
  return result;
}

class Tables {
 public:
  Table add(std::vector<Cost> costs) {
    const std::uint64_t hash = hash_of(costs);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (*known->second.costs == costs) return known->second;
    }
    const Table table{std::make_shared<const std::vector<Cost>>(std::move(costs)), known_.size()};
    known_.emplace(hash, table);
    return table;
  }
  // Replaces forbidden costs by kOut first.
  Table add_allowed(std::vector<Cost> costs) {
    for (Cost& cost : costs) cost = forbidden(cost) ? kOut : cost;
    return add(std::move(costs));
  }
  // Shared ones, which live as long as this.
  Table add_shared(const std::vector<Cost>& costs) {
    const auto [known, fresh] = by_address_.try_emplace(&costs);
    if (fresh) known->second = add_allowed(costs);
    return known->second;
  }

  // Returns the table with its variables in another order: `order` has the old places.
  Table permuted(const Table& table, const std::vector<std::size_t>& sizes,
                 const std::vector<std::size_t>& order) {
    std::vector<std::size_t> key = {table.number};
    key.insert(key.end(), sizes.begin(), sizes.end());
    key.insert(key.end(), order.begin(), order.end());
    const auto [known, fresh] = permuted_.try_emplace(std::move(key));
    if (fresh) known->second = add(in_order(*table.costs, sizes, order));
    return known->second;
  }

 private:
  std::unordered_map<const void*, Table> by_address_;
  std::map<std::vector<std::size_t>, Table> permuted_;
  std::unordered_multimap<std::uint64_t, Table> known_;
};

struct Order {
  std::vector<VariableId> variables;
  std::int64_t largest = 0;  // cells of the largest table, its own variable included
};

// The criterion for the next variable: its smallest table, with or without its own choices.
enum class Smallest : std::uint8_t { with_own, without_own };

// Ends early when a table becomes larger than `limit`.
Order elimination_order(const Network& network, const std::vector<Factor>& more, std::int64_t limit,
                        Smallest smallest) {
  IdVector<VariableId, std::set<VariableId>> around(network.nodes.ids());
  for (const Pair& pair : network.pairs) {
    if (!pair.alive) continue;
    around[pair.from].insert(pair.to);
    around[pair.to].insert(pair.from);
  }
  for (const Factor& factor : more) {
    for (const VariableId v : factor.variables) {
      for (const VariableId u : factor.variables) {
        if (u != v) around[v].insert(u);
      }
    }
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto size = [&](VariableId v) { return std::ssize(network.nodes[v].costs); };
  const auto weight = [&](VariableId v) {
    std::int64_t cells = smallest == Smallest::with_own ? size(v) : 1;
    for (const VariableId u : around[v]) cells = cells > kMost / size(u) ? kMost : cells * size(u);
    return cells;
  };
  std::set<std::tuple<std::int64_t, int, VariableId>> next;
  IdVector<VariableId, std::int64_t> weights(network.nodes.ids(), 0);
  // How many removals one after another have led to the table of each variable.
  IdVector<VariableId, int> rounds(network.nodes.ids(), 0);
  for (const VariableId v : network.nodes.ids()) {
    if (network.nodes[v].alive && !network.nodes[v].fixed) next.insert({weights[v] = weight(v), 0, v});
  }
  Order order;
  while (!next.empty()) {
    const auto [cells, round, v] = *next.begin();
    next.erase(next.begin());
    order.variables.push_back(v);
    const std::int64_t own = smallest == Smallest::with_own ? 1 : size(v);
    order.largest = std::max(order.largest, cells > kMost / own ? kMost : cells * own);
    if (order.largest > limit) break;
    for (const VariableId u : around[v]) {
      around[u].erase(v);
      for (const VariableId w : around[v]) {
        if (w != u) around[u].insert(w);
      }
    }
    for (const VariableId u : around[v]) {
      if (network.nodes[u].fixed) continue;
      next.erase({weights[u], rounds[u], u});
      rounds[u] = std::max(rounds[u], round + 1);
      next.insert({weights[u] = weight(u), rounds[u], u});
    }
  }
  return order;
}

// The order with the smaller largest table.
Order best_order(const Network& network, const std::vector<Factor>& more, std::int64_t limit) {
  Order best = elimination_order(network, more, limit, Smallest::with_own);
  if (best.largest <= limit / 16) return best;  // what it takes is little
  Order other = elimination_order(network, more, std::min(limit, best.largest - 1), Smallest::without_own);
  return other.largest < best.largest ? other : best;
}

// The table that eliminating a variable leaves, without its smallest entry, which is `least`.
struct Result {
  Table table;
  std::shared_ptr<const TableSum> sum;
  Cost least = 0;
};

Result result_of(TableSum sum, Tables& tables) {
  Result result;
  std::vector<Cost> costs = minimise(sum);
  result.least = *std::min_element(costs.begin(), costs.end());
  if (result.least < kOut && result.least != 0) {
    for (Cost& cost : costs) {
      if (cost < kOut) cost -= result.least;
    }
  }
  result.table = tables.add(std::move(costs));
  result.sum = std::make_shared<const TableSum>(std::move(sum));
  return result;
}

// Everything that a result depends on.
std::vector<std::size_t> content(const std::vector<Part>& parts, const TableSum& sum) {
  std::vector<std::size_t> key = {sum.sizes.size()};
  key.insert(key.end(), sum.sizes.begin(), sum.sizes.end());
  for (std::size_t f = 0; f < parts.size(); ++f) {
    key.push_back(parts[f].table.number);
    key.insert(key.end(), sum.terms[f].strides.begin(), sum.terms[f].strides.end());
  }
  return key;
}

// The tables that are left, each in the bucket of the first of its variables to be eliminated.
class Buckets {
 public:
  Buckets(const Network& network, const std::vector<VariableId>& order, std::vector<Factor>* left)
      : network_(network),
        left_(left),
        turn_(network.nodes.ids(), network.nodes.size()),
        buckets_(network.nodes.ids()) {
    for (std::size_t i = 0; i < order.size(); ++i) turn_[order[i]] = i;
  }

  // All tables have their variables in this order.
  bool before(VariableId a, VariableId b) const {
    return std::pair(network_.size(a), a) < std::pair(network_.size(b), b);
  }

  void add(const std::vector<VariableId>& variables, const Table& table) {
    const auto comes_before = [&](VariableId a, VariableId b) { return before(a, b); };
    if (std::ranges::is_sorted(variables, comes_before)) return place({variables, table});
    std::vector<std::size_t> own(variables.size());
    std::iota(own.begin(), own.end(), 0);
    std::ranges::sort(own, comes_before, [&](std::size_t k) { return variables[k]; });
    std::vector<VariableId> sorted;
    std::vector<std::size_t> sizes;
    for (const std::size_t k : own) sorted.push_back(variables[k]);
    for (const VariableId v : variables) sizes.push_back(network_.size(v));
    place({std::move(sorted), tables.permuted(table, sizes, own)});
  }
  void place(Part part) {
    const VariableId first =
        *std::ranges::min_element(part.variables, {}, [&](VariableId v) { return turn_[v]; });
    if (!network_.nodes[first].fixed) {
      buckets_[first].push_back(std::move(part));
      return;
    }
    std::vector<Cost> costs = *part.table.costs;
    for (Cost& cost : costs) cost = cost >= kOut ? kInside : cost;
    left_->push_back(
        {std::move(part.variables), std::make_shared<const std::vector<Cost>>(std::move(costs))});
  }
  std::vector<Part> take(VariableId variable) { return std::exchange(buckets_[variable], {}); }

  // The other variables of the parts.
  std::vector<VariableId> scope_of(const std::vector<Part>& parts, VariableId variable) const {
    std::vector<VariableId> on;
    for (const Part& part : parts) {
      for (const VariableId u : part.variables) {
        if (u != variable) on.push_back(u);
      }
    }
    std::ranges::sort(on, [&](VariableId a, VariableId b) { return before(a, b); });
    on.erase(std::unique(on.begin(), on.end()), on.end());
    return on;
  }
  // The sum of the parts over that scope, and last the variable.
  TableSum sum_of(const std::vector<Part>& parts, const std::vector<VariableId>& on,
                  VariableId variable) const {
    std::vector<VariableId> scope = on;
    scope.push_back(variable);
    TableSum sum;
    sum.own_last = on.empty() || before(on.back(), variable);
    for (const VariableId u : scope) sum.sizes.push_back(network_.size(u));
    for (const Part& part : parts) {
      Term& term = sum.terms.emplace_back(Term{part.table.costs, std::vector<std::size_t>(scope.size(), 0)});
      std::size_t step = 1;
      for (const VariableId u : std::views::reverse(part.variables)) {
        term.strides[std::ranges::find(scope, u) - scope.begin()] = step;
        step *= network_.size(u);
      }
    }
    return sum;
  }

  Tables tables;

 private:
  const Network& network_;
  std::vector<Factor>* left_;
  IdVector<VariableId, std::size_t> turn_;
  IdVector<VariableId, std::vector<Part>> buckets_;
};

}  // namespace

bool Network::can_eliminate(std::int64_t table) const {
  return !constrained() && elimination_order(*this, {}, table, Smallest::with_own).largest <= table;
}

bool Network::eliminate(std::int64_t table, const std::vector<Factor>& more, std::vector<Factor>* left) {
  if (constrained()) return false;
  const Order order = best_order(*this, more, table);
  if (order.largest > table) return false;

  Buckets buckets(*this, order.variables, left);
  for (const Pair& pair : pairs) {
    if (!pair.alive || (nodes[pair.from].fixed && nodes[pair.to].fixed)) continue;
    buckets.add({pair.from, pair.to}, buckets.tables.add_shared(pair.costs.costs()));
  }
  for (const VariableId v : order.variables) buckets.add({v}, buckets.tables.add_allowed(nodes[v].costs));
  for (const Factor& factor : more) buckets.add(factor.variables, buckets.tables.add_shared(*factor.costs));

  std::map<std::vector<std::size_t>, Result> kept;
  for (const VariableId v : order.variables) {
    const std::vector<Part> parts = buckets.take(v);
    const std::vector<VariableId> on = buckets.scope_of(parts, v);
    TableSum sum = buckets.sum_of(parts, on, v);
    const auto [entry, fresh] = kept.try_emplace(content(parts, sum));
    if (fresh) {
      std::int64_t work = 1;
      for (const std::size_t n : sum.sizes) work *= n;
      cells += work;
      entry->second = result_of(std::move(sum), buckets.tables);
    }
    const Result& result = entry->second;
    constant = plus(constant, result.least >= kOut ? kInside : result.least);
    if (forbidden(constant)) {
      infeasible = true;
      return true;
    }
    record(v, on, nullptr, result.sum);
    if (!on.empty()) buckets.place({on, result.table});
  }
  for (const VariableId v : order.variables) drop_node(v);
  return true;
}

}  // namespace braid::solver
