// Exact elimination (bucket elimination, Dechter 1999): variables are removed one after another, each leaves a table over its
// neighbours. The order takes the variable with the smallest table next, of equal ones that around which the least has been
// removed: of a chain of equal layers first every second border, then every second one of those left, and so on. What equal layers of a
// model leave is computed once: results are kept by the content of the tables that they were computed from, so a chain takes
// as many tables as its length has bits.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "frontend/sharding/network.h"

namespace braid::frontend::sharding {

namespace {

constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

// Tables here have this for what is forbidden: so many of them can be added up without overflow that sums are cut once in a while.
constexpr Cost kOut = Cost{1} << 59;
constexpr std::size_t kSafeSums = 8;

// A table over variables in ascending order, row-major. Tables of equal content have one number.
struct Table {
  std::shared_ptr<const std::vector<Cost>> costs;
  int number = 0;
};
struct Factor {
  std::vector<int> variables;
  Table table;
};

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

 private:
  std::unordered_multimap<std::uint64_t, Table> known_;
};

struct Order {
  std::vector<int> variables;
  std::int64_t largest = 0;  // cells of the largest table, its own variable included
};

// Ends early when a table becomes larger than `limit`.
Order elimination_order(const Network& network, std::int64_t limit) {
  const int count = static_cast<int>(network.nodes.size());
  std::vector<std::set<int>> around(count);
  for (const Pair& pair : network.pairs) {
    if (!pair.alive) continue;
    around[pair.from].insert(pair.to);
    around[pair.to].insert(pair.from);
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto weight = [&](int v) {
    std::int64_t cells = network.size(v);
    for (int u : around[v]) cells = cells > kMost / network.size(u) ? kMost : cells * network.size(u);
    return cells;
  };
  std::set<std::tuple<std::int64_t, int, int>> next;
  std::vector<std::int64_t> weights(count, 0);
  std::vector<int> rounds(count, 0);  // how many removals one after another have led to its table
  for (int v = 0; v < count; ++v) {
    if (network.nodes[v].alive) next.insert({weights[v] = weight(v), 0, v});
  }
  Order order;
  while (!next.empty()) {
    const auto [cells, round, v] = *next.begin();
    next.erase(next.begin());
    order.variables.push_back(v);
    order.largest = std::max(order.largest, cells);
    if (order.largest > limit) break;
    for (int u : around[v]) {
      around[u].erase(v);
      for (int w : around[v]) {
        if (w != u) around[u].insert(w);
      }
    }
    for (int u : around[v]) {
      next.erase({weights[u], rounds[u], u});
      rounds[u] = std::max(rounds[u], round + 1);
      next.insert({weights[u] = weight(u), rounds[u], u});
    }
  }
  return order;
}

// What eliminating a variable leaves: costs without their smallest entry, which is `least`.
struct Result {
  Table table;
  std::shared_ptr<const std::vector<int>> choice;
  Cost least = 0;
};

// The sum of the factors minimised over the last of `variables`. `strides[f][i]` is how far one step of variables[i] goes in
// factor f (0: the factor lacks it).
Result minimise(const std::vector<const Factor*>& factors, const std::vector<int>& sizes,
                const std::vector<std::vector<std::size_t>>& strides, Tables& tables) {
  const std::size_t others = sizes.size() - 1;
  const int choices = sizes[others];
  // Rows of the result are runs of the last of the other variables.
  const std::size_t outer = others > 0 ? others - 1 : 0;
  const auto columns = static_cast<std::size_t>(others > 0 ? sizes[outer] : 1);
  std::size_t rows = 1;
  for (std::size_t i = 0; i < outer; ++i) rows *= static_cast<std::size_t>(sizes[i]);
  std::vector<Cost> costs(rows * columns, kOut), sum(columns);
  auto choice = std::make_shared<std::vector<int>>(rows * columns, -1);
  std::vector<int> at(outer, 0);
  std::vector<std::size_t> offset(factors.size(), 0);
  for (std::size_t row = 0; row < rows; ++row) {
    Cost* const least = &costs[row * columns];
    int* const best = &(*choice)[row * columns];
    for (int c = 0; c < choices; ++c) {
      std::fill(sum.begin(), sum.end(), 0);
      for (std::size_t f = 0; f < factors.size(); ++f) {
        const Cost* const from =
            factors[f]->table.costs->data() + offset[f] + static_cast<std::size_t>(c) * strides[f][others];
        const std::size_t step = others > 0 ? strides[f][outer] : 0;
        for (std::size_t j = 0; j < columns; ++j) sum[j] += from[j * step];
        if (f % kSafeSums != kSafeSums - 1) continue;
        for (Cost& s : sum) s = std::min(s, kOut);
      }
      for (std::size_t j = 0; j < columns; ++j) {
        if (sum[j] < least[j]) least[j] = sum[j], best[j] = c;
      }
    }
    for (std::size_t i = outer; i-- > 0;) {
      for (std::size_t f = 0; f < factors.size(); ++f) offset[f] += strides[f][i];
      if (++at[i] < sizes[i]) break;
      for (std::size_t f = 0; f < factors.size(); ++f)
        offset[f] -= strides[f][i] * static_cast<std::size_t>(sizes[i]);
      at[i] = 0;
    }
  }
  Result result;
  result.least = *std::min_element(costs.begin(), costs.end());
  if (result.least < kOut) {
    for (Cost& cost : costs) {
      if (cost < kOut) cost -= result.least;
    }
  }
  result.table = tables.add(std::move(costs));
  result.choice = std::move(choice);
  return result;
}

// Everything that a result depends on.
std::vector<std::size_t> content(const std::vector<const Factor*>& factors, const std::vector<int>& sizes,
                                 const std::vector<std::vector<std::size_t>>& strides) {
  std::vector<std::size_t> key(sizes.begin(), sizes.end());
  for (std::size_t f = 0; f < factors.size(); ++f) {
    key.push_back(static_cast<std::size_t>(factors[f]->table.number));
    key.insert(key.end(), strides[f].begin(), strides[f].end());
  }
  return key;
}

}  // namespace

bool Network::can_eliminate(std::int64_t table) const {
  return !constrained() && elimination_order(*this, table).largest <= table;
}

bool Network::eliminate(std::int64_t table) {
  if (constrained()) return false;
  const Order order = elimination_order(*this, table);
  if (order.largest > table) return false;

  std::vector<std::vector<Factor>> buckets(nodes.size());  // by the variable that is eliminated first
  std::vector<int> turn(nodes.size(), -1);
  for (std::size_t i = 0; i < order.variables.size(); ++i) turn[order.variables[i]] = static_cast<int>(i);
  const auto place = [&](Factor factor) {
    const int first = *std::min_element(factor.variables.begin(), factor.variables.end(),
                                        [&](int a, int b) { return turn[a] < turn[b]; });
    buckets[first].push_back(std::move(factor));
  };
  Tables tables;
  const auto table_of = [&](std::vector<Cost> costs) {
    for (Cost& cost : costs) cost = forbidden(cost) ? kOut : cost;
    return tables.add(std::move(costs));
  };
  for (Pair& pair : pairs) {
    if (!pair.alive) continue;
    std::vector<Cost> costs = pair.costs;
    if (pair.from > pair.to) {
      const int rows = size(pair.from), columns = size(pair.to);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          costs[static_cast<std::size_t>(j) * rows + i] =
              pair.costs[static_cast<std::size_t>(i) * columns + j];
        }
      }
    }
    place({{std::min(pair.from, pair.to), std::max(pair.from, pair.to)}, table_of(std::move(costs))});
  }
  for (int v : order.variables) place({{v}, table_of(nodes[v].costs)});

  std::map<std::vector<std::size_t>, Result> kept;
  for (int v : order.variables) {
    std::vector<const Factor*> factors;
    std::vector<int> on;
    for (const Factor& factor : buckets[v]) {
      factors.push_back(&factor);
      for (int u : factor.variables) {
        if (u != v) on.push_back(u);
      }
    }
    std::sort(on.begin(), on.end());
    on.erase(std::unique(on.begin(), on.end()), on.end());
    std::vector<int> scope = on, sizes;
    scope.push_back(v);
    for (int u : scope) sizes.push_back(size(u));
    std::vector<std::vector<std::size_t>> strides;
    for (const Factor* factor : factors) {
      std::vector<std::size_t> stride(scope.size(), 0);
      std::size_t step = 1;
      for (std::size_t i = factor->variables.size(); i-- > 0;) {
        const auto at = std::find(scope.begin(), scope.end(), factor->variables[i]) - scope.begin();
        stride[static_cast<std::size_t>(at)] = step;
        step *= static_cast<std::size_t>(size(factor->variables[i]));
      }
      strides.push_back(std::move(stride));
    }
    const auto [entry, fresh] = kept.try_emplace(content(factors, sizes, strides));
    if (fresh) {
      std::int64_t work = 1;
      for (int n : sizes) work *= n;
      cells += work;
      entry->second = minimise(factors, sizes, strides, tables);
    }
    const Result& result = entry->second;
    constant = plus(constant, result.least >= kOut ? kInside : result.least);
    if (forbidden(constant)) {
      infeasible = true;
      return true;
    }
    record(v, on, result.choice);
    if (!on.empty()) place({on, result.table});
    std::vector<Factor>().swap(buckets[v]);
  }
  for (int v : order.variables) drop_node(v);
  return true;
}

}  // namespace braid::frontend::sharding
