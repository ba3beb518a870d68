// Exact elimination (bucket elimination, Dechter 1999): variables are removed one after another, each leaves a table over its
// neighbours. The order takes the variable with the smallest table next. What equal layers of a model leave is computed once:
// results are kept by the content of the tables that they were computed from.
#include <algorithm>
#include <map>
#include <set>

#include "frontend/sharding/network.h"

namespace braid::frontend::sharding {

namespace {

constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

// A table over variables in ascending order, row-major.
struct Factor {
  std::vector<int> variables;
  std::vector<Cost> costs;
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
  std::set<std::pair<std::int64_t, int>> next;
  std::vector<std::int64_t> weights(count, 0);
  for (int v = 0; v < count; ++v) {
    if (network.nodes[v].alive) next.insert({weights[v] = weight(v), v});
  }
  Order order;
  while (!next.empty()) {
    const auto [cells, v] = *next.begin();
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
      next.erase({weights[u], u});
      next.insert({weights[u] = weight(u), u});
    }
  }
  return order;
}

// What eliminating a variable leaves: costs without their smallest entry, which is `least`.
struct Result {
  std::vector<Cost> costs;
  std::vector<int> choice;
  Cost least = 0;
};

// The sum of the factors minimised over the last of `variables`. `strides[f][i]` is how far one step of variables[i] goes in
// factor f (0: the factor lacks it).
Result minimise(const std::vector<const Factor*>& factors, const std::vector<int>& sizes,
                const std::vector<std::vector<std::size_t>>& strides) {
  const std::size_t others = sizes.size() - 1;
  std::size_t cells = 1;
  for (std::size_t i = 0; i < others; ++i) cells *= static_cast<std::size_t>(sizes[i]);
  Result result{std::vector<Cost>(cells, kInside), std::vector<int>(cells, -1), 0};
  std::vector<int> at(others, 0);
  std::vector<std::size_t> offset(factors.size(), 0);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (int c = 0; c < sizes[others]; ++c) {
      Cost sum = 0;
      for (std::size_t f = 0; f < factors.size(); ++f) {
        sum = plus(sum, factors[f]->costs[offset[f] + static_cast<std::size_t>(c) * strides[f][others]]);
      }
      if (sum < result.costs[cell]) result.costs[cell] = sum, result.choice[cell] = c;
    }
    for (std::size_t i = others; i-- > 0;) {
      for (std::size_t f = 0; f < factors.size(); ++f) offset[f] += strides[f][i];
      if (++at[i] < sizes[i]) break;
      for (std::size_t f = 0; f < factors.size(); ++f)
        offset[f] -= strides[f][i] * static_cast<std::size_t>(sizes[i]);
      at[i] = 0;
    }
  }
  result.least = *std::min_element(result.costs.begin(), result.costs.end());
  if (!forbidden(result.least)) {
    for (Cost& cost : result.costs) {
      if (!forbidden(cost)) cost -= result.least;
    }
  }
  return result;
}

// Everything that a result depends on.
std::vector<Cost> content(const std::vector<const Factor*>& factors, const std::vector<int>& sizes,
                          const std::vector<std::vector<std::size_t>>& strides) {
  std::vector<Cost> key(sizes.begin(), sizes.end());
  for (std::size_t f = 0; f < factors.size(); ++f) {
    key.insert(key.end(), strides[f].begin(), strides[f].end());
    key.insert(key.end(), factors[f]->costs.begin(), factors[f]->costs.end());
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
  for (Pair& pair : pairs) {
    if (!pair.alive) continue;
    Factor factor{{pair.from, pair.to}, pair.costs};
    if (pair.from > pair.to) {
      factor.variables = {pair.to, pair.from};
      const int rows = size(pair.from), columns = size(pair.to);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          factor.costs[static_cast<std::size_t>(j) * rows + i] =
              pair.costs[static_cast<std::size_t>(i) * columns + j];
        }
      }
    }
    place(std::move(factor));
  }
  for (int v : order.variables) place({{v}, nodes[v].costs});

  constexpr std::int64_t kWorthKeeping = 512;
  std::map<std::vector<Cost>, Result> kept;
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
    std::int64_t work = 1;
    for (int n : sizes) work *= n;
    Result result;
    if (work >= kWorthKeeping) {
      const auto [entry, fresh] = kept.try_emplace(content(factors, sizes, strides));
      if (fresh) {
        entry->second = minimise(factors, sizes, strides);
        cells += work;
      }
      result = entry->second;
    } else {
      result = minimise(factors, sizes, strides);
      cells += work;
    }
    constant = plus(constant, result.least);
    if (forbidden(constant)) {
      infeasible = true;
      return true;
    }
    record(v, on, std::move(result.choice));
    if (!on.empty()) place({on, std::move(result.costs)});
    std::vector<Factor>().swap(buckets[v]);
  }
  for (int v : order.variables) drop_node(v);
  return true;
}

}  // namespace braid::frontend::sharding
