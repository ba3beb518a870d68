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
struct Part {
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
  // With what is forbidden as it is here.
  Table add_allowed(std::vector<Cost> costs) {
    for (Cost& cost : costs) cost = forbidden(cost) ? kOut : cost;
    return add(std::move(costs));
  }
  Table add_allowed(const std::shared_ptr<const std::vector<Cost>>& costs) {
    const auto [known, fresh] = by_address_.try_emplace(costs.get());
    if (fresh) known->second = add_allowed(*costs);
    return known->second;
  }

 private:
  std::unordered_map<const void*, Table> by_address_;
  std::unordered_multimap<std::uint64_t, Table> known_;
};

struct Order {
  std::vector<int> variables;
  std::int64_t largest = 0;  // cells of the largest table, its own variable included
};

// What is removed next: the variable with the smallest table, its own choices counted or not.
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

// What eliminating a variable leaves: costs without their smallest entry, which is `least`.
struct Result {
  Table table;
  std::shared_ptr<const std::vector<int>> choice;
  Cost least = 0;
};

// Costs with how far one step of each variable of a scope goes in them (0: they do not depend on it).
struct View {
  const Cost* costs = nullptr;
  std::size_t cells = 0;
  std::vector<std::size_t> strides;
};

// Calls `run` with the offset in each view of every run of the last of these sizes.
template <class Run>
void each_run(const std::vector<int>& sizes, const std::vector<const View*>& views, const Run& run) {
  const std::size_t outer = sizes.empty() ? 0 : sizes.size() - 1;
  std::size_t rows = 1;
  for (std::size_t i = 0; i < outer; ++i) rows *= static_cast<std::size_t>(sizes[i]);
  std::vector<int> at(outer, 0);
  std::vector<std::size_t> offset(views.size(), 0);
  for (std::size_t row = 0; row < rows; ++row) {
    run(row, offset);
    for (std::size_t i = outer; i-- > 0;) {
      for (std::size_t f = 0; f < views.size(); ++f) offset[f] += views[f]->strides[i];
      if (++at[i] < sizes[i]) break;
      for (std::size_t f = 0; f < views.size(); ++f)
        offset[f] -= views[f]->strides[i] * static_cast<std::size_t>(sizes[i]);
      at[i] = 0;
    }
  }
}

// Those that depend on nothing that another one does not depend on are added to it: it is smaller than the sum of all. New costs
// are put into `made`.
std::vector<View> combined(std::vector<View> views, const std::vector<int>& sizes,
                           std::vector<std::vector<Cost>>& made) {
  std::stable_sort(views.begin(), views.end(),
                   [](const View& a, const View& b) { return a.cells < b.cells; });
  std::vector<View> all;
  std::vector<std::vector<const View*>> added(views.size());
  made.reserve(views.size());
  const auto within = [&](const View& a, const View& b) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (a.strides[i] != 0 && b.strides[i] == 0) return false;
    return true;
  };
  std::vector<char> gone(views.size(), 0);
  std::vector<View> sums = views;
  for (std::size_t k = 0; k < views.size(); ++k) {
    // With what has been added to it.
    if (!added[k].empty()) {
      std::vector<Cost>& costs = made.emplace_back(views[k].costs, views[k].costs + views[k].cells);
      for (const View* more : added[k]) {
        // The variables of the sum, in the order of its own cells.
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          if (views[k].strides[i] != 0) order.push_back(i);
        std::sort(order.begin(), order.end(),
                  [&](std::size_t a, std::size_t b) { return views[k].strides[a] > views[k].strides[b]; });
        std::vector<int> own_sizes;
        View of_more{more->costs, more->cells, {}};
        for (const std::size_t i : order) {
          own_sizes.push_back(sizes[i]);
          of_more.strides.push_back(more->strides[i]);
        }
        const auto columns = static_cast<std::size_t>(own_sizes.empty() ? 1 : own_sizes.back());
        const std::size_t step = own_sizes.empty() ? 0 : of_more.strides.back();
        Cost* next = costs.data();
        each_run(own_sizes, {&of_more}, [&](std::size_t /*row*/, const std::vector<std::size_t>& offset) {
          const Cost* from = of_more.costs + offset[0];
          for (std::size_t j = 0; j < columns; ++j, ++next) *next = std::min(*next + from[j * step], kOut);
        });
      }
      sums[k].costs = costs.data();
    }
    for (std::size_t g = k + 1; g < views.size() && gone[k] == 0; ++g) {
      if (!within(views[k], views[g])) continue;
      added[g].push_back(&sums[k]);
      gone[k] = 1;
    }
    if (gone[k] == 0) all.push_back(sums[k]);
  }
  return all;
}

// The sum of the views minimised over the last of the variables, of these sizes.
Result minimise(const std::vector<View>& views, const std::vector<int>& sizes, Tables& tables) {
  const std::size_t others = sizes.size() - 1;
  const int choices = sizes[others];
  // Rows of the result are runs of the last of the other variables.
  const std::vector<int> shape(sizes.begin(), sizes.end() - 1);
  const auto columns = static_cast<std::size_t>(others > 0 ? shape.back() : 1);
  std::size_t cells = 1;
  for (const int size : shape) cells *= static_cast<std::size_t>(size);
  std::vector<Cost> costs(cells, kOut), sum(columns);
  auto choice = std::make_shared<std::vector<int>>(cells, -1);
  std::vector<std::vector<Cost>> made;
  const std::vector<View> parts = combined(views, sizes, made);
  std::vector<const View*> pointers;
  for (const View& part : parts) pointers.push_back(&part);
  const auto step_of = [&](std::size_t f) { return others > 0 ? parts[f].strides[others - 1] : 0; };
  each_run(shape, pointers, [&](std::size_t row, const std::vector<std::size_t>& offset) {
    Cost* const least = &costs[row * columns];
    int* const best = &(*choice)[row * columns];
    for (int c = 0; c < choices; ++c) {
      const auto from = [&](std::size_t f) {
        return parts[f].costs + offset[f] + static_cast<std::size_t>(c) * parts[f].strides[others];
      };
      const auto take = [&](std::size_t j, Cost cost) {
        best[j] = cost < least[j] ? c : best[j];
        least[j] = std::min(least[j], cost);
      };
      if (parts.size() == 1) {
        const Cost* const a = from(0);
        const std::size_t step = step_of(0);
        for (std::size_t j = 0; j < columns; ++j) take(j, a[j * step]);
        continue;
      }
      if (parts.size() == 2) {
        const Cost *const a = from(0), *const b = from(1);
        const std::size_t step_a = step_of(0), step_b = step_of(1);
        for (std::size_t j = 0; j < columns; ++j) take(j, a[j * step_a] + b[j * step_b]);
        continue;
      }
      std::fill(sum.begin(), sum.end(), 0);
      for (std::size_t f = 0; f < parts.size(); ++f) {
        const Cost* const a = from(f);
        const std::size_t step = step_of(f);
        for (std::size_t j = 0; j < columns; ++j) sum[j] += a[j * step];
        if (f % kSafeSums != kSafeSums - 1) continue;
        for (Cost& s : sum) s = std::min(s, kOut);
      }
      for (std::size_t j = 0; j < columns; ++j) take(j, sum[j]);
    }
  });
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
std::vector<std::size_t> content(const std::vector<Part>& parts, const std::vector<View>& views,
                                 const std::vector<int>& sizes) {
  std::vector<std::size_t> key(sizes.begin(), sizes.end());
  for (std::size_t f = 0; f < parts.size(); ++f) {
    key.push_back(static_cast<std::size_t>(parts[f].table.number));
    key.insert(key.end(), views[f].strides.begin(), views[f].strides.end());
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
  Tables tables;
  for (Pair& pair : pairs) {
    if (!pair.alive || (nodes[pair.from].fixed && nodes[pair.to].fixed)) continue;
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
    place(
        {{std::min(pair.from, pair.to), std::max(pair.from, pair.to)}, tables.add_allowed(std::move(costs))});
  }
  for (int v : order.variables) place({{v}, tables.add_allowed(nodes[v].costs)});
  for (const Factor& factor : more) place({factor.variables, tables.add_allowed(factor.costs)});

  std::map<std::vector<std::size_t>, Result> kept;
  for (int v : order.variables) {
    const std::vector<Part>& parts = buckets[v];
    std::vector<int> on;
    for (const Part& part : parts) {
      for (int u : part.variables) {
        if (u != v) on.push_back(u);
      }
    }
    // The one with the most choices comes last: runs of it are long.
    const auto place_of = [&](int u) { return std::pair(size(u), u); };
    std::sort(on.begin(), on.end(), [&](int a, int b) { return place_of(a) < place_of(b); });
    on.erase(std::unique(on.begin(), on.end()), on.end());
    std::vector<int> scope = on, sizes;
    scope.push_back(v);
    for (int u : scope) sizes.push_back(size(u));
    std::vector<View> views;
    for (const Part& part : parts) {
      View view{part.table.costs->data(), part.table.costs->size(),
                std::vector<std::size_t>(scope.size(), 0)};
      std::size_t step = 1;
      for (std::size_t i = part.variables.size(); i-- > 0;) {
        const auto at = std::find(scope.begin(), scope.end(), part.variables[i]) - scope.begin();
        view.strides[static_cast<std::size_t>(at)] = step;
        step *= static_cast<std::size_t>(size(part.variables[i]));
      }
      views.push_back(std::move(view));
    }
    const auto [entry, fresh] = kept.try_emplace(content(parts, views, sizes));
    if (fresh) {
      std::int64_t work = 1;
      for (int n : sizes) work *= n;
      cells += work;
      entry->second = minimise(views, sizes, tables);
    }
    const Result& result = entry->second;
    constant = plus(constant, result.least >= kOut ? kInside : result.least);
    if (forbidden(constant)) {
      infeasible = true;
      return true;
    }
    record(v, on, result.choice);
    if (!on.empty()) place({on, result.table});
    std::vector<Part>().swap(buckets[v]);
  }
  for (int v : order.variables) drop_node(v);
  return true;
}

}  // namespace braid::frontend::sharding
