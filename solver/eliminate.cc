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
#include <set>
#include <tuple>
#include <unordered_map>

#include "solver/minimise.h"
#include "solver/network.h"

namespace braid::solver {

namespace {

constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

// A table over several variables, row-major. Tables of equal content have one number.
struct Table {
  std::shared_ptr<const std::vector<Cost>> costs;
  int number = 0;
};
struct Part {
  std::vector<int> variables;
  Table table;
};

// The costs with their variables in another order: `order` has the old places.
std::vector<Cost> in_order(const std::vector<Cost>& costs, const std::vector<int>& sizes,
                           const std::vector<std::size_t>& order) {
  std::vector<std::size_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * static_cast<std::size_t>(sizes[i]);
  std::vector<Cost> result;
  result.reserve(costs.size());
  std::vector<int> at(sizes.size(), 0);
  std::size_t cell = 0;
  while (result.size() < costs.size()) {
    result.push_back(costs[cell]);
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::size_t k = order[i];
      cell += strides[k];
      if (++at[k] < sizes[k]) break;
      cell -= strides[k] * static_cast<std::size_t>(sizes[k]);
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
    const Table table{std::make_shared<const std::vector<Cost>>(std::move(costs)),
                      static_cast<int>(known_.size())};
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
  Table permuted(const Table& table, const std::vector<int>& sizes, const std::vector<std::size_t>& order) {
    std::vector<std::size_t> key = {static_cast<std::size_t>(table.number)};
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
  std::vector<int> variables;
  std::int64_t largest = 0;  // cells of the largest table, its own variable included
};

// The criterion for the next variable: its smallest table, with or without its own choices.
enum class Smallest : std::uint8_t { with_own, without_own };

// Ends early when a table becomes larger than `limit`.
Order elimination_order(const Network& network, const std::vector<Factor>& more, std::int64_t limit,
                        Smallest smallest) {
  const int count = static_cast<int>(network.nodes.size());
  std::vector<std::set<int>> around(count);
  for (const Pair& pair : network.pairs) {
    if (!pair.alive) continue;
    around[pair.from].insert(pair.to);
    around[pair.to].insert(pair.from);
  }
  for (const Factor& factor : more) {
    for (int v : factor.variables) {
      for (int u : factor.variables) {
        if (u != v) around[v].insert(u);
      }
    }
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto weight = [&](int v) {
    std::int64_t cells = smallest == Smallest::with_own ? network.size(v) : 1;
    for (int u : around[v]) cells = cells > kMost / network.size(u) ? kMost : cells * network.size(u);
    return cells;
  };
  std::set<std::tuple<std::int64_t, int, int>> next;
  std::vector<std::int64_t> weights(count, 0);
  std::vector<int> rounds(count, 0);  // how many removals one after another have led to its table
  for (int v = 0; v < count; ++v) {
    if (network.nodes[v].alive && !network.nodes[v].fixed) next.insert({weights[v] = weight(v), 0, v});
  }
  Order order;
  while (!next.empty()) {
    const auto [cells, round, v] = *next.begin();
    next.erase(next.begin());
    order.variables.push_back(v);
    const std::int64_t own = smallest == Smallest::with_own ? 1 : network.size(v);
    order.largest = std::max(order.largest, cells > kMost / own ? kMost : cells * own);
    if (order.largest > limit) break;
    for (int u : around[v]) {
      around[u].erase(v);
      for (int w : around[v]) {
        if (w != u) around[u].insert(w);
      }
    }
    for (int u : around[v]) {
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
    key.push_back(static_cast<std::size_t>(parts[f].table.number));
    key.insert(key.end(), sum.terms[f].strides.begin(), sum.terms[f].strides.end());
  }
  return key;
}

}  // namespace

bool Network::can_eliminate(std::int64_t table) const {
  return !constrained() && elimination_order(*this, {}, table, Smallest::with_own).largest <= table;
}

bool Network::eliminate(std::int64_t table, const std::vector<Factor>& more, std::vector<Factor>* left) {
  if (constrained()) return false;
  const Order order = best_order(*this, more, table);
  if (order.largest > table) return false;

  std::vector<std::vector<Part>> buckets(nodes.size());  // by the variable that is eliminated first
  std::vector<int> turn(nodes.size(), static_cast<int>(nodes.size()));
  for (std::size_t i = 0; i < order.variables.size(); ++i) turn[order.variables[i]] = static_cast<int>(i);
  const auto place = [&](Part part) {
    const int first = *std::min_element(part.variables.begin(), part.variables.end(),
                                        [&](int a, int b) { return turn[a] < turn[b]; });
    if (!nodes[first].fixed) {
      buckets[first].push_back(std::move(part));
      return;
    }
    std::vector<Cost> costs = *part.table.costs;
    for (Cost& cost : costs) cost = cost >= kOut ? kInside : cost;
    left->push_back({std::move(part.variables), std::make_shared<const std::vector<Cost>>(std::move(costs))});
  };
  // All tables have their variables in this order.
  const auto before = [&](int a, int b) { return std::pair(size(a), a) < std::pair(size(b), b); };
  Tables tables;
  const auto add = [&](const std::vector<int>& variables, const Table& table) {
    if (std::is_sorted(variables.begin(), variables.end(), before)) return place({variables, table});
    std::vector<std::size_t> own(variables.size());
    std::iota(own.begin(), own.end(), 0);
    std::sort(own.begin(), own.end(),
              [&](std::size_t a, std::size_t b) { return before(variables[a], variables[b]); });
    std::vector<int> sorted, sizes;
    for (const std::size_t k : own) sorted.push_back(variables[k]);
    for (const int v : variables) sizes.push_back(size(v));
    place({std::move(sorted), tables.permuted(table, sizes, own)});
  };
  for (Pair& pair : pairs) {
    if (!pair.alive || (nodes[pair.from].fixed && nodes[pair.to].fixed)) continue;
    add({pair.from, pair.to}, tables.add_shared(pair.costs.costs()));
  }
  for (int v : order.variables) add({v}, tables.add_allowed(nodes[v].costs));
  for (const Factor& factor : more) add(factor.variables, tables.add_shared(*factor.costs));

  std::map<std::vector<std::size_t>, Result> kept;
  for (int v : order.variables) {
    const std::vector<Part>& parts = buckets[v];
    std::vector<int> on;
    for (const Part& part : parts) {
      for (int u : part.variables) {
        if (u != v) on.push_back(u);
      }
    }
    std::sort(on.begin(), on.end(), before);
    on.erase(std::unique(on.begin(), on.end()), on.end());
    std::vector<int> scope = on;
    scope.push_back(v);
    TableSum sum;
    sum.own_last = on.empty() || before(on.back(), v);
    for (int u : scope) sum.sizes.push_back(size(u));
    for (const Part& part : parts) {
      Term& term = sum.terms.emplace_back(Term{part.table.costs, std::vector<std::size_t>(scope.size(), 0)});
      std::size_t step = 1;
      for (std::size_t i = part.variables.size(); i-- > 0;) {
        const auto at = std::find(scope.begin(), scope.end(), part.variables[i]) - scope.begin();
        term.strides[static_cast<std::size_t>(at)] = step;
        step *= static_cast<std::size_t>(size(part.variables[i]));
      }
    }
    const auto [entry, fresh] = kept.try_emplace(content(parts, sum));
    if (fresh) {
      std::int64_t work = 1;
      for (int n : sum.sizes) work *= n;
      cells += work;
      entry->second = result_of(std::move(sum), tables);
    }
    const Result& result = entry->second;
    constant = plus(constant, result.least >= kOut ? kInside : result.least);
    if (forbidden(constant)) {
      infeasible = true;
      return true;
    }
    record(v, on, nullptr, result.sum);
    if (!on.empty()) place({on, result.table});
    std::vector<Part>().swap(buckets[v]);
  }
  for (int v : order.variables) drop_node(v);
  return true;
}

}  // namespace braid::solver
