#include "solver/network.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ir/error.h"

namespace braid::solver {

namespace {

constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }

// Returns a sum; a forbidden addend makes it forbidden.
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

// The largest bytes at each row if all variables take their largest choices.
std::vector<std::int64_t> largest_occupation(const Problem& problem) {
  std::vector<std::int64_t> step(problem.limits.size() + 1, 0);
  for (const Usage& usage : problem.usages) {
    const std::int64_t most = *std::max_element(usage.bytes.begin(), usage.bytes.end());
    for (const RowRange& range : usage.rows) {
      step[range.begin] += most;
      step[range.end] -= most;
    }
  }
  for (std::size_t row = 1; row < step.size(); ++row) step[row] += step[row - 1];
  step.resize(problem.limits.size());
  return step;
}

// The table itself if that is the same.
CostTable scaled(const CostTable& table, Cost scale) {
  if (scale == 1 && std::ranges::find(table, kForbidden) == table.end()) return table;
  std::vector<Cost> costs = table.costs();
  for (Cost& cost : costs) cost = cost == kForbidden ? kInside : cost * scale;
  return costs;
}

}  // namespace

std::vector<std::size_t> cells_of(const std::vector<Labels>& labels, const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> cells(1, 0);
  for (std::size_t k = 0; k < labels.size(); ++k) {
    std::vector<std::size_t> next;
    next.reserve(cells.size() * labels[k].size());
    for (const std::size_t cell : cells) {
      for (const int label : labels[k].all())
        next.push_back(cell * sizes[k] + static_cast<std::size_t>(label));
    }
    cells = std::move(next);
  }
  return cells;
}

Network::Network(const Problem& problem, Cost scale) {
  const int count = static_cast<int>(problem.variables.size());
  nodes.resize(count);
  queued_.assign(count, 0);
  to_compare_.assign(count, 1);
  std::map<std::size_t, Labels> all;  // by number
  for (int v = 0; v < count; ++v) {
    const CostTable& costs = problem.variables[v];
    nodes[v].costs.reserve(costs.size());
    for (const Cost cost : costs) nodes[v].costs.push_back(cost == kForbidden ? kInside : cost * scale);
    const auto [labels, fresh] = all.try_emplace(costs.size());
    if (fresh) {
      std::vector<int> choices(costs.size());
      std::iota(choices.begin(), choices.end(), 0);
      labels->second = Labels(std::move(choices));
    }
    nodes[v].labels = labels->second;
  }
  std::unordered_map<const void*, CostTable> tables;  // scaled; of equal layers once
  for (const Edge& edge : problem.edges) {
    const auto [table, added] = tables.try_emplace(edge.costs.address());
    if (added) table->second = scaled(edge.costs, scale);
    const CostTable& costs = table->second;
    if (edge.from == edge.to) {
      const int n = size(edge.from);
      for (int c = 0; c < n; ++c) {
        nodes[edge.from].costs[c] =
            plus(nodes[edge.from].costs[c], costs[static_cast<std::size_t>(c) * n + c]);
      }
    } else {
      add_pair(edge.from, edge.to, costs);
    }
  }
  // Rows that even the largest choices keep are left out.
  const std::vector<std::int64_t> largest = largest_occupation(problem);
  std::vector<int> number(problem.limits.size() + 1, 0);
  for (std::size_t row = 0; row < problem.limits.size(); ++row) {
    number[row + 1] = number[row];
    if (largest[row] <= problem.limits[row]) continue;
    ++number[row + 1];
    limits.push_back(problem.limits[row]);
  }
  taken_.assign(limits.size() + 1, 0);
  for (const Usage& usage : problem.usages) {
    auto rows = std::make_shared<std::vector<RowRange>>();
    for (const RowRange& range : usage.rows) {
      const RowRange kept{number[range.begin], number[range.end]};
      if (kept.begin == kept.end) continue;
      if (!rows->empty() && rows->back().end == kept.begin) {
        rows->back().end = kept.end;
      } else {
        rows->push_back(kept);
      }
    }
    if (rows->empty()) continue;
    const int use = static_cast<int>(uses.size());
    uses.push_back({usage.variable, usage.bytes, nullptr});
    uses.back().set_rows(std::move(rows));
    nodes[usage.variable].uses.push_back(use);
    normalise_use(use);
  }
  for (int v = 0; v < count; ++v) {
    combine_uses(v);
    touch(v);
  }
  settle_limits();
}

void Network::multiply_costs(Cost factor) {
  const auto multiply = [&](std::vector<Cost>& costs) {
    for (Cost& cost : costs) cost = forbidden(cost) ? kInside : cost * factor;
  };
  for (Node& node : nodes) multiply(node.costs);
  for (Pair& pair : pairs) multiply(pair.costs.edit());
  constant *= factor;
}

int Network::find_pair(int a, int b) const {
  const int scan = nodes[a].pairs.size() <= nodes[b].pairs.size() ? a : b;
  for (int pair : nodes[scan].pairs) {
    if (pairs[pair].other(scan) == (scan == a ? b : a)) return pair;
  }
  return -1;
}

bool Network::constrained() const {
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.alive; });
}

void Network::touch(int variable) {
  if (queued_[variable] || !nodes[variable].alive) return;
  queued_[variable] = 1;
  queue_.push_back(variable);
}

void Network::touch_around(int variable) {
  touch(variable);
  for (int pair : nodes[variable].pairs) touch(pairs[pair].other(variable));
}

int Network::add_pair(int a, int b, PairCosts costs) {
  int pair = find_pair(a, b);
  cells += static_cast<std::int64_t>(costs.size());
  if (pair < 0) {
    if (free_.empty()) {
      pair = static_cast<int>(pairs.size());
      pairs.emplace_back();
    } else {
      pair = free_.back();
      free_.pop_back();
    }
    pairs[pair] = {a, b, std::move(costs), true};
    nodes[a].pairs.push_back(pair);
    nodes[b].pairs.push_back(pair);
    return pair;
  }
  const int rows = size(a), columns = size(b);
  std::vector<Cost>& sums = pairs[pair].costs.edit();
  const bool same_way = pairs[pair].from == a;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      Cost& sum =
          sums[same_way ? static_cast<std::size_t>(i) * columns + j : static_cast<std::size_t>(j) * rows + i];
      sum = plus(sum, costs[static_cast<std::size_t>(i) * columns + j]);
    }
  }
  return pair;
}

void Network::drop_pair(int pair) {
  for (int v : {pairs[pair].from, pairs[pair].to}) std::erase(nodes[v].pairs, pair);
  pairs[pair].alive = false;
  pairs[pair].costs = PairCosts();
  free_.push_back(pair);
}

void Network::drop_node(int variable) {
  Node& node = nodes[variable];
  const std::vector<int> own = std::exchange(node.pairs, {});  // there may be thousands
  for (const int pair : own) drop_pair(pair);
  for (int use : node.uses) uses[use].alive = false;
  node = Node{};
  node.alive = false;
}

void Network::normalise_use(int use) {
  Use& u = uses[use];
  const auto [least, most] = std::minmax_element(u.bytes.begin(), u.bytes.end());
  const std::int64_t base = *least;
  const bool constant_bytes = base == *most;
  if (base != 0) {
    for (std::int64_t& bytes : u.bytes) bytes -= base;
    for (const RowRange& range : *u.rows) {
      taken_[range.begin] += base;
      taken_[range.end] -= base;
    }
    taken_any_ = true;
  }
  if (constant_bytes) {
    u.alive = false;
    std::erase(nodes[u.variable].uses, use);
  }
}

void Network::settle_limits() {
  if (!taken_any_) return;
  std::int64_t taken = 0;
  for (std::size_t row = 0; row < limits.size(); ++row) {
    taken += taken_[row];
    limits[row] -= taken;
    if (limits[row] < 0) infeasible = true;
  }
  std::fill(taken_.begin(), taken_.end(), 0);
  taken_any_ = false;
}

void Use::set_rows(std::shared_ptr<const std::vector<RowRange>> now) {
  rows = std::move(now);
  hash = rows->size();
  for (const RowRange& range : *rows) {
    for (const int row : {range.begin, range.end})
      hash = (hash ^ static_cast<std::uint64_t>(row) ^ (hash >> 29)) * 0x9e3779b97f4a7c15u;
  }
}

void Network::combine_uses(int variable, std::size_t distinct) {
  std::vector<int>& list = nodes[variable].uses;
  std::vector<int> changed;
  for (std::size_t k = distinct; k < list.size(); ++k) {
    Use& own = uses[list[k]];
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(distinct);
    const auto known = std::find_if(list.begin(), end, [&](int other) {
      const Use& theirs = uses[other];
      return theirs.hash == own.hash && (theirs.rows == own.rows || *theirs.rows == *own.rows);
    });
    if (known == end) {
      list[distinct++] = list[k];
      continue;
    }
    std::vector<std::int64_t>& bytes = uses[*known].bytes;
    for (std::size_t c = 0; c < bytes.size(); ++c) bytes[c] += own.bytes[c];
    own.alive = false;
    changed.push_back(*known);
  }
  list.resize(distinct);
  for (const int use : changed)
    if (uses[use].alive) normalise_use(use);
}

void Network::keep_choices(int variable, const std::vector<int>& keep) {
  Node& node = nodes[variable];
  const int before = size(variable);
  if (static_cast<int>(keep.size()) == before) return;
  if (keep.empty()) {
    infeasible = true;
    return;
  }
  for (int pair : node.pairs) {
    Pair& p = pairs[pair];
    cells += static_cast<std::int64_t>(p.costs.size());
    std::vector<Cost> kept;
    if (p.from == variable) {
      const int columns = size(p.to);
      kept.reserve(keep.size() * columns);
      for (int c : keep) {
        const Cost* row = p.costs.data() + static_cast<std::ptrdiff_t>(c) * columns;
        kept.insert(kept.end(), row, row + columns);
      }
    } else {
      const int rows = size(p.from);
      kept.reserve(keep.size() * rows);
      for (int r = 0; r < rows; ++r) {
        const Cost* row = p.costs.data() + static_cast<std::ptrdiff_t>(r) * before;
        for (int c : keep) kept.push_back(row[c]);
      }
    }
    p.costs = std::move(kept);
  }
  const auto select = [&](auto& values) {
    for (std::size_t i = 0; i < keep.size(); ++i) values[i] = values[keep[i]];
    values.resize(keep.size());
  };
  select(node.costs);
  std::vector<int> labels = node.labels.all();
  select(labels);
  node.labels = Labels(std::move(labels));
  for (int use : node.uses) select(uses[use].bytes);
  for (std::size_t i = node.uses.size(); i-- > 0;) normalise_use(node.uses[i]);
  touch_around(variable);
}

void Network::record(int variable, const std::vector<int>& on, std::shared_ptr<const std::vector<int>> choice,
                     std::shared_ptr<const TableSum> sum) {
  auto step = std::make_shared<Step>();
  step->variable = variable;
  step->labels = nodes[variable].labels;
  step->on.reserve(on.size());
  for (const int v : on) step->on.emplace_back(v, nodes[v].labels);
  step->choice = std::move(choice);
  step->sum = std::move(sum);
  step->before = steps_;
  steps_ = std::move(step);
}

void Network::restore(std::vector<int>& choice) const {
  std::vector<int> places;  // of the choices of `on`
  for (const Step* step = steps_.get(); step; step = step->before.get()) {
    places.clear();
    std::size_t cell = 0;
    for (const auto& [variable, labels] : step->on) {
      const std::optional<std::size_t> place = labels.place_of(choice[variable]);
      ir::internal_check(place.has_value(), "variable {} depends on {}, which has no choice", step->variable,
                         variable);
      places.push_back(static_cast<int>(*place));
      cell = cell * labels.size() + *place;
    }
    const int own = step->sum ? best_choice(*step->sum, places) : (*step->choice)[cell];
    ir::internal_check(own >= 0, "variable {} has no choice", step->variable);
    choice[step->variable] = step->labels[static_cast<std::size_t>(own)];
  }
}

}  // namespace braid::solver
