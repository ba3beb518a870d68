// Removal of choices and variables (network.h). All tables are at least 0 here, so the constant is a lower
// bound. The smallest entry of each table that a removal produces is moved into the constant.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "ir/error.h"
#include "solver/network.h"

namespace braid::solver {

namespace {

// Takes the smallest entry out of the table; kInside if all are forbidden.
Cost take_least(std::vector<Cost>& costs) {
  const Cost least = *std::min_element(costs.begin(), costs.end());
  if (forbidden(least)) return kInside;
  if (least != 0) {
    for (Cost& cost : costs) {
      if (!forbidden(cost)) cost -= least;
    }
  }
  return least;
}

Cost take_least(PairCosts& table) {
  const Cost least = *std::ranges::min_element(table.costs());
  if (forbidden(least)) return kInside;
  return least == 0 ? 0 : take_least(table.edit());
}

// Smallest values of ranges of rows, in constant time after n log n.
class RangeMinimum {
 public:
  explicit RangeMinimum(IdVector<RowId, std::int64_t> values) {
    levels_.push_back(std::move(values));
    for (int width = 1; 2 * width <= count_of(levels_[0]); width *= 2) {
      const IdVector<RowId, std::int64_t>& last = levels_.back();
      IdVector<RowId, std::int64_t> next({RowId{0}, last.end_id() - width});
      for (const RowId row : next.ids()) next[row] = std::min(last[row], last[row + width]);
      levels_.push_back(std::move(next));
    }
  }
  std::int64_t operator()(const RowRange& rows) const {
    const std::size_t count = IdRange(rows.begin, rows.end).size();
    const int level = std::bit_width(count) - 1;
    return std::min(levels_[level][rows.begin], levels_[level][rows.end - (1 << level)]);
  }

 private:
  std::vector<IdVector<RowId, std::int64_t>> levels_;  // of 1, 2, 4, ... rows
};

}  // namespace

void Network::normalise() {
  for (Pair& pair : pairs) {
    if (!pair.alive) continue;
    const Cost least = take_least(pair.costs);
    if (forbidden(least)) infeasible = true;
    constant = plus(constant, least);
  }
  for (Node& node : nodes) {
    if (!node.alive) continue;
    const Cost least = take_least(node.costs);
    if (forbidden(least)) infeasible = true;
    constant = plus(constant, least);
  }
  if (forbidden(constant)) infeasible = true;
}

void Network::lift(VariableId variable) {
  const Cost least = take_least(nodes[variable].costs);
  constant = plus(constant, least);
  if (forbidden(constant)) infeasible = true;
}

void Network::touch_all() {
  for (const VariableId v : nodes.ids()) touch(v);
}

bool Network::relax_rows(IdVector<RowId, std::int64_t>& prices) {
  RowSums largest(limits.ids()), used(limits.ids());
  for (const Use& use : uses) {
    if (!use.alive) continue;
    const std::int64_t most = *std::max_element(use.bytes.begin(), use.bytes.end());
    for (const RowRange& range : *use.rows) {
      largest.add(range, most);
      used.add(range, 1);
    }
  }
  const IdVector<RowId, std::int64_t> occupied = largest.take(), uses_at = used.take();
  IdVector<RowId, std::int64_t> change(limits.ids(), 0), relaxed(limits.ids(), 0);
  bool any = false;
  for (const RowId row : limits.ids()) {
    if (occupied[row] > limits[row]) continue;
    relaxed[row] = 1;
    if (uses_at[row] > 0 || prices[row] != 0) any = true;
    change[row] = -prices[row];
    prices[row] = 0;
  }
  if (!any) return false;
  add_prices(change);
  const IdVector<RowId, std::int64_t> relaxed_before = sums_before(relaxed);
  for (const UseId use : uses.ids()) {
    Use& u = uses[use];
    if (!u.alive) continue;
    const bool touched = std::ranges::any_of(
        *u.rows, [&](const RowRange& range) { return sum_in(range, relaxed_before) > 0; });
    if (!touched) continue;
    auto rows = std::make_shared<std::vector<RowRange>>();
    for (const RowRange& range : *u.rows) {
      for (const RowId row : IdRange(range.begin, range.end)) {
        if (relaxed[row] != 0) continue;
        if (!rows->empty() && rows->back().end == row) {
          ++rows->back().end;
        } else {
          rows->push_back({row, row + 1});
        }
      }
    }
    touch(u.variable);
    if (rows->empty()) {
      u.alive = false;
      std::erase(nodes[u.variable].uses, use);
    }
    u.set_rows(std::move(rows));
  }
  for (const VariableId v : nodes.ids()) combine_uses(v);
  settle_limits();
  return true;
}

std::vector<Cost> Network::bounds_of(VariableId variable) const {
  const Node& node = nodes[variable];
  const std::size_t own = size(variable);
  std::vector<Cost> bound = node.costs, least(own);
  for (const PairId pair : node.pairs) {
    const Pair& p = pairs[pair];
    const std::size_t others = size(p.other(variable));
    if (p.from == variable) {
      least_of_rows(least.data(), p.costs.data(), own, others);
    } else {
      least_of_columns(least.data(), p.costs.data(), others, own);
    }
    for (std::size_t i = 0; i < own; ++i) bound[i] = plus(bound[i], least[i]);
  }
  for (Cost& cost : bound) cost = plus(cost, constant);
  return bound;
}

// Choices that are forbidden, have no partner in a neighbour, or cost too much.
bool Network::filter_node(VariableId variable, Cost below) {
  for (const PairId pair : nodes[variable].pairs) cells += pairs[pair].costs.size();
  const std::vector<Cost> bound = bounds_of(variable);
  const auto stays = [&](Cost cost) { return !forbidden(cost) && cost < below; };
  if (std::ranges::all_of(bound, stays)) return false;
  std::vector<std::size_t> keep;
  for (std::size_t c = 0; c < bound.size(); ++c)
    if (stays(bound[c])) keep.push_back(c);
  keep_choices(variable, keep);
  if (infeasible) return true;
  const Cost least = take_least(nodes[variable].costs);
  constant += least;
  return true;
}

// Choices that leave too little for the smallest choices of all others.
bool Network::filter_memory() {
  settle_limits();
  if (infeasible) return true;
  if (limits.empty()) return false;
  RowSums smallest(limits.ids());
  const std::vector<MemorySegment> segments = memory_segments(smallest);
  IdVector<RowId, std::int64_t> slack = smallest.take();
  for (const RowId row : limits.ids()) {
    slack[row] = limits[row] - slack[row];
    if (slack[row] < 0) {
      infeasible = true;
      return true;
    }
  }
  const RangeMinimum least_slack(std::move(slack));
  bool changed = false;
  std::vector<char> out;
  for (std::size_t s = 0; s < segments.size();) {
    const VariableId v = segments[s].variable;
    out.assign(size(v), 0);
    bool any = false;
    for (; s < segments.size() && segments[s].variable == v; ++s) {
      const std::int64_t room = least_slack(segments[s].rows);
      for (std::size_t c = 0; c < out.size(); ++c) {
        if (segments[s].bytes[c] > room) out[c] = 1, any = true;
      }
    }
    if (!any) continue;
    std::vector<std::size_t> keep;
    for (std::size_t c = 0; c < out.size(); ++c) {
      if (!out[c]) keep.push_back(c);
    }
    keep_choices(v, keep);
    if (infeasible) return true;
    constant += take_least(nodes[v].costs);
    changed = true;
  }
  return changed;
}

// The bytes of each variable, without those of its smallest choice, which are added to `smallest`.
std::vector<Network::MemorySegment> Network::memory_segments(RowSums& smallest) {
  std::vector<MemorySegment> segments;
  for (const VariableId v : nodes.ids()) {
    const std::vector<UseId>& list = nodes[v].uses;
    if (list.empty()) continue;
    std::vector<RowId> borders;
    for (const UseId use : list) {
      for (const RowRange& range : *uses[use].rows) borders.insert(borders.end(), {range.begin, range.end});
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    const std::size_t first = segments.size();
    for (std::size_t b = 0; b + 1 < borders.size(); ++b)
      segments.push_back({v, {borders[b], borders[b + 1]}, std::vector<std::int64_t>(size(v), 0)});
    for (const UseId use : list) {
      for (const RowRange& range : *uses[use].rows) {
        std::size_t s = first + (std::ranges::lower_bound(borders, range.begin) - borders.begin());
        for (; s < segments.size() && segments[s].rows.begin < range.end; ++s) {
          for (std::size_t c = 0; c < size(v); ++c) segments[s].bytes[c] += uses[use].bytes[c];
          cells += size(v);
        }
      }
    }
    for (std::size_t s = first; s < segments.size(); ++s) {
      MemorySegment& segment = segments[s];
      const std::int64_t least = *std::min_element(segment.bytes.begin(), segment.bytes.end());
      smallest.add(segment.rows, least);
      for (std::int64_t& bytes : segment.bytes) bytes -= least;
    }
  }
  return segments;
}

// Pairs that are the sum of two functions of one variable each.
bool Network::simplify_pairs(VariableId variable) {
  bool changed = false;
  const std::vector<PairId> list = nodes[variable].pairs;
  std::vector<Cost> row_part, column_part;
  for (const PairId pair : list) {
    Pair& p = pairs[pair];
    const std::size_t rows = size(p.from), columns = size(p.to);
    const auto row_of = [&](std::size_t i) { return p.costs.data() + i * columns; };
    const Cost* const first = row_of(0);
    bool separable = std::none_of(first, first + columns, forbidden);
    for (std::size_t i = 1; i < rows && separable; ++i) {
      const Cost* const row = row_of(i);
      const Cost more = row[0] - first[0];
      for (std::size_t j = 0; j < columns && separable; ++j)
        separable = !forbidden(row[j]) && row[j] - first[j] == more;
    }
    if (!separable) continue;
    column_part.assign(first, first + columns);
    row_part.clear();
    for (std::size_t i = 0; i < rows; ++i) row_part.push_back(row_of(i)[0] - first[0]);
    // Both parts at least 0: the table's smallest entry is the sum of the smallest parts.
    const Cost shift = *std::min_element(row_part.begin(), row_part.end());
    std::vector<Cost>&from_costs = nodes[p.from].costs, &to_costs = nodes[p.to].costs;
    for (std::size_t i = 0; i < rows; ++i) from_costs[i] = plus(from_costs[i], row_part[i] - shift);
    for (std::size_t j = 0; j < columns; ++j) to_costs[j] = plus(to_costs[j], column_part[j] + shift);
    for (const VariableId v : {p.from, p.to}) {
      const Cost least = take_least(nodes[v].costs);
      if (forbidden(least)) {
        infeasible = true;
        return true;
      }
      constant += least;
      touch(v);
    }
    const VariableId from = p.from, to = p.to;
    drop_pair(pair);
    touch_around(from);
    touch_around(to);
    changed = true;
  }
  return changed;
}

bool Network::remove_single(VariableId variable) {
  if (size(variable) != 1) return false;
  constant = plus(constant, nodes[variable].costs[0]);
  if (forbidden(constant)) {
    infeasible = true;
    return true;
  }
  for (const PairId pair : nodes[variable].pairs) {
    const Pair& p = pairs[pair];
    std::vector<Cost>& costs = nodes[p.other(variable)].costs;
    for (std::size_t c = 0; c < costs.size(); ++c) costs[c] = plus(costs[c], p.costs[c]);
    const Cost least = take_least(costs);
    if (forbidden(least)) {
      infeasible = true;
      return true;
    }
    constant += least;
  }
  record(variable, {}, std::make_shared<const std::vector<int>>(1, 0));
  touch_around(variable);
  drop_node(variable);
  return true;
}

// Removes a variable whose choice follows from that of a neighbour, which takes over its costs and bytes.
bool Network::merge_determined(VariableId variable) {
  VariableId into;
  PairId through;
  for (const PairId pair : nodes[variable].pairs) {
    const Pair& p = pairs[pair];
    const VariableId other = p.other(variable);
    if (into.valid() && size(other) >= size(into)) continue;
    if (size(other) < size(variable)) continue;  // each choice has a partner, so no function
    bool determined = true;
    for (std::size_t i = 0; i < size(other) && determined; ++i) {
      int partners = 0;
      for (std::size_t j = 0; j < size(variable); ++j) partners += !forbidden(cost(p, other, i, j));
      determined = partners == 1;
    }
    if (determined) into = other, through = pair;
  }
  if (!into.valid()) return false;
  // The neighbours' tables become larger by the ratio of sizes: at most so much.
  std::size_t before = 0, after = 0;
  for (const PairId pair : nodes[variable].pairs) {
    const std::size_t m = size(pairs[pair].other(variable));
    before += m * size(variable);
    after += m * size(into);
  }
  if (after > 4 * before + 65536) return false;

  std::vector<std::size_t> image(size(into));
  for (std::size_t i = 0; i < size(into); ++i) {
    for (std::size_t j = 0; j < size(variable); ++j) {
      const Cost here = cost(pairs[through], into, i, j);
      if (forbidden(here)) continue;
      image[i] = j;
      nodes[into].costs[i] = plus(nodes[into].costs[i], plus(here, nodes[variable].costs[j]));
    }
  }
  record(variable, {into}, std::make_shared<const std::vector<int>>(image.begin(), image.end()));
  const std::vector<PairId> list = nodes[variable].pairs;
  for (const PairId pair : list) {
    if (pair == through) continue;
    const VariableId other = pairs[pair].other(variable);
    std::vector<Cost> table;
    table.reserve(size(into) * size(other));
    for (const std::size_t i : image) {
      for (std::size_t c = 0; c < size(other); ++c) table.push_back(cost(pairs[pair], variable, i, c));
    }
    const PairId added = add_pair(into, other, std::move(table));
    constant = plus(constant, take_least(pairs[added].costs));
    touch(other);
  }
  // Each had uses in different rows: the fewer are looked for among the others.
  std::vector<UseId> moved = std::exchange(nodes[variable].uses, {}),
                     own = std::exchange(nodes[into].uses, {});
  for (const UseId use : moved) {
    std::vector<std::int64_t> bytes(size(into));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = uses[use].bytes[image[i]];
    uses[use].bytes = std::move(bytes);
    uses[use].variable = into;
  }
  if (own.size() < moved.size()) std::swap(own, moved);
  const std::size_t distinct = own.size();
  own.insert(own.end(), moved.begin(), moved.end());
  nodes[into].uses = std::move(own);
  drop_node(variable);
  combine_uses(into, distinct);
  const Cost least = take_least(nodes[into].costs);
  constant = plus(constant, least);
  if (forbidden(constant)) infeasible = true;
  touch_around(into);
  return true;
}

// Removes a variable without memory and with at most two neighbours: finds its best choice for each
// combination of theirs. Equal layers of a model are computed once.
bool Network::remove_small_degree(VariableId variable) {
  const Node& node = nodes[variable];
  if (!node.uses.empty() || node.pairs.size() > 2) return false;
  if (node.pairs.empty()) {
    const auto best = std::min_element(node.costs.begin(), node.costs.end());
    constant = plus(constant, *best);
    record(variable, {}, std::make_shared<const std::vector<int>>(1, best - node.costs.begin()));
    drop_node(variable);
    return true;
  }
  const Around around = {&pairs[node.pairs[0]], node.pairs.size() == 2 ? &pairs[node.pairs[1]] : nullptr};
  const VariableId a = around[0]->other(variable);
  const VariableId b = around[1] == nullptr ? VariableId{} : around[1]->other(variable);
  const std::size_t work = size(a) * (b.valid() ? size(b) : 1) * size(variable);
  constexpr std::size_t kWorthKeeping = 2048, kMostKept = 1024;
  const bool worth = work >= kWorthKeeping;
  const std::uint64_t hash = worth ? hash_of(variable, around) : 0;
  const Removed* known = worth ? find_removed(variable, around, hash) : nullptr;
  Removed removed;
  if (known == nullptr) {
    cells += work;
    removed = minimised(variable, around);
    known = &removed;
    if (worth && kept_->size() < kMostKept) {
      removed.own = node.costs;
      for (std::size_t k = 0; k < around.size() && around[k] != nullptr; ++k) {
        removed.pairs[k] = around[k]->costs.share();
        removed.from[k] = around[k]->from == variable;
      }
      removed.costs.share();
      known = &kept_->emplace(hash, std::move(removed))->second;
    }
  }
  record(variable, b.valid() ? std::vector{a, b} : std::vector{a}, known->choice);
  drop_node(variable);
  constant = plus(constant, known->least);
  if (!b.valid()) {
    std::vector<Cost>& costs = nodes[a].costs;
    const std::vector<Cost>& left = known->costs.costs();
    for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = plus(costs[i], left[i]);
    constant = plus(constant, take_least(costs));
  } else {
    const bool joins = find_pair(a, b).valid();
    const PairId added = add_pair(a, b, known == &removed ? std::move(removed.costs) : known->costs);
    if (joins) constant = plus(constant, take_least(pairs[added].costs));
    touch(b);
  }
  touch(a);
  if (forbidden(constant)) infeasible = true;
  return true;
}

std::uint64_t Network::hash_of(VariableId variable, const Around& around) const {
  std::uint64_t hash = solver::hash_of(nodes[variable].costs);
  for (const Pair* pair : around) {
    if (pair != nullptr)
      hash = (hash ^ solver::hash_of(pair->costs.costs()) ^ (pair->from == variable)) * 0x9e3779b97f4a7c15u;
  }
  return hash;
}

const Network::Removed* Network::find_removed(VariableId variable, const Around& around,
                                              std::uint64_t hash) const {
  const auto equal = [&](const Removed& other, std::size_t k) {
    if (around[k] == nullptr) return !other.from[k] && other.pairs[k].empty();
    return other.from[k] == (around[k]->from == variable) && around[k]->costs == other.pairs[k];
  };
  const auto [begin, end] = kept_->equal_range(hash);
  for (auto kept = begin; kept != end; ++kept) {
    const Removed& other = kept->second;
    if (other.own == nodes[variable].costs && equal(other, 0) && equal(other, 1)) return &other;
  }
  return nullptr;
}

// The costs and choices that removing the variable leaves, without what it was computed from.
Network::Removed Network::minimised(VariableId variable, const Around& around) const {
  const std::vector<Cost>& own = nodes[variable].costs;
  const std::size_t n = own.size(), rows = size(around[0]->other(variable));
  const std::size_t columns = around[1] == nullptr ? 1 : size(around[1]->other(variable));
  std::array<std::vector<Cost>, 2> turned;  // both pairs' costs, row-major from this variable
  std::array<const Cost*, 2> costs = {nullptr, nullptr};
  for (std::size_t k = 0; k < around.size() && around[k] != nullptr; ++k) {
    const Pair& p = *around[k];
    costs[k] = p.costs.data();
    if (p.from == variable) continue;
    const std::size_t others = size(p.from);
    turned[k].resize(p.costs.size());
    for (std::size_t j = 0; j < others; ++j) {
      for (std::size_t c = 0; c < n; ++c) turned[k][c * others + j] = costs[k][j * n + c];
    }
    costs[k] = turned[k].data();
  }
  std::vector<Cost> left(rows * columns, kForbiddenFrom);
  auto best = std::make_shared<std::vector<int>>(left.size(), -1);
  for (std::size_t c = 0; c < n; ++c) {
    for (std::size_t i = 0; i < rows; ++i) {
      const Cost mine = plus(own[c], costs[0][c * rows + i]);
      if (forbidden(mine)) continue;
      Cost* const row = &left[i * columns];
      int* const best_of_row = &(*best)[i * columns];
      if (around[1] == nullptr) {
        if (mine < row[0]) row[0] = mine, best_of_row[0] = c;
        continue;
      }
      // Forbidden entries are kInside, so the sum stays above what is allowed.
      take_cheaper(row, best_of_row, costs[1] + c * columns, mine, c, columns);
    }
  }
  std::ranges::replace(left, kForbiddenFrom, kInside);
  Removed removed;
  removed.least = take_least(left);
  removed.costs = std::move(left);
  removed.choice = std::move(best);
  return removed;
}

// Removes choices that cost at least as much as another one whatever the neighbours choose, and occupy at
// least as much.
bool Network::dominate(VariableId variable) {
  const Node& node = nodes[variable];
  const std::size_t n = size(variable);
  if (n < 2) return false;
  // The pairs' costs by rows of this variable, with the smallest entry of each row and where it is.
  struct Rows {
    const Cost* costs = nullptr;
    std::size_t columns = 0;
    std::vector<Cost> turned, least;
    std::vector<std::size_t> where;
    const Cost* row(std::size_t choice) const { return costs + choice * columns; }
  };
  std::vector<Rows> tables(node.pairs.size());
  std::vector<Cost> bound = node.costs;
  for (std::size_t k = 0; k < tables.size(); ++k) {
    const Pair& p = pairs[node.pairs[k]];
    Rows& t = tables[k];
    t.columns = size(p.other(variable));
    t.costs = p.costs.data();
    if (p.from != variable) {
      t.turned.resize(p.costs.size());
      for (std::size_t j = 0; j < t.columns; ++j) {
        for (std::size_t i = 0; i < n; ++i) t.turned[i * t.columns + j] = t.costs[j * n + i];
      }
      t.costs = t.turned.data();
    }
    for (std::size_t i = 0; i < n; ++i) {
      const Cost* least = std::min_element(t.row(i), t.row(i) + t.columns);
      t.least.push_back(*least);
      t.where.push_back(least - t.row(i));
      bound[i] = plus(bound[i], *least);
    }
    cells += p.costs.size();
  }
  // Adds the largest loss with each neighbour, one after another. Those still to come count only with the
  // best partner of the worse choice.
  const auto replaces = [&](std::size_t better, std::size_t worse) {
    if (bound[better] > bound[worse]) return false;
    for (const UseId use : node.uses) {
      if (uses[use].bytes[better] > uses[use].bytes[worse]) return false;
    }
    if (forbidden(node.costs[better])) return false;
    Cost loss = node.costs[better] - node.costs[worse];
    if (forbidden(bound[worse])) loss = -kInside;
    const auto probe = [&](const Rows& t) {
      return forbidden(t.least[worse]) ? 0 : t.row(better)[t.where[worse]] - t.least[worse];
    };
    for (const Rows& t : tables) {
      const Cost first = probe(t);
      if (first >= kForbiddenFrom / 2) return false;
      loss += first;
    }
    if (loss > 0) return false;
    for (const Rows& t : tables) {
      if (forbidden(t.least[worse])) return true;  // the worse one has no partner at all
      const Cost *mine = t.row(better), *theirs = t.row(worse);
      Cost most = -kInside;
      for (std::size_t c = 0; c < t.columns; ++c)
        most = std::max(most, forbidden(theirs[c]) ? -kInside : mine[c] - theirs[c]);
      cells += t.columns;
      if (most >= kForbiddenFrom / 2) return false;  // a partner that the better one lacks
      loss += most - probe(t);
      if (loss > 0) return false;
    }
    return true;
  };
  std::vector<char> out(n, 0);
  bool changed = false;
  for (std::size_t worse = n; worse-- > 0;) {
    for (std::size_t better = 0; better < n && out[worse] == 0; ++better) {
      if (better != worse && out[better] == 0 && replaces(better, worse)) out[worse] = 1, changed = true;
    }
  }
  if (!changed) return false;
  std::vector<std::size_t> keep;
  for (std::size_t c = 0; c < n; ++c) {
    if (out[c] == 0) keep.push_back(c);
  }
  keep_choices(variable, keep);
  constant += take_least(nodes[variable].costs);
  return true;
}

void Network::propagate(Cost below) {
  while (!queue_.empty() && !infeasible && constant < below) {
    const std::vector<VariableId> batch = std::exchange(queue_, {});
    for (const VariableId v : batch) {
      queued_[v] = 0;
      if (!nodes[v].alive || infeasible) continue;
      to_compare_[v] = 1;
      filter_node(v, below);
      if (infeasible) continue;
      simplify_pairs(v);
      if (infeasible) continue;
      if (!nodes[v].fixed && !remove_single(v) && !remove_small_degree(v)) merge_determined(v);
    }
  }
  if (constant >= below) infeasible = true;
}

void Network::reduce(Cost below, bool dominance) {
  for (;;) {
    propagate(below);
    if (infeasible) break;
    if (filter_memory()) continue;
    bool changed = false;
    for (const VariableId v : nodes.ids()) {
      if (!dominance) break;
      if (nodes[v].alive && !nodes[v].fixed && to_compare_[v]) changed |= dominate(v);
      to_compare_[v] = 0;
    }
    if (!changed) break;
  }
  settle_limits();
  for (const VariableId v : queue_) queued_[v] = 0;
  queue_.clear();
}

void Network::add_prices(const IdVector<RowId, std::int64_t>& prices) {
  const IdVector<RowId, std::int64_t> sums = sums_before(prices);
  __int128 total = 0;
  for (const RowId row : prices.ids()) total += static_cast<__int128>(prices[row]) * limits[row];
  // Rounded so that no choice within the limits costs more than without prices: costs down, the worth of the
  // limits up.
  constexpr int kFraction = 32;
  for (const Use& use : uses) {
    if (!use.alive) continue;
    std::int64_t price = 0;
    for (const RowRange& range : *use.rows) price += sum_in(range, sums);
    if (price == 0) continue;
    std::vector<Cost>& costs = nodes[use.variable].costs;
    for (std::size_t c = 0; c < costs.size(); ++c) {
      if (!forbidden(costs[c]))
        costs[c] += static_cast<Cost>((static_cast<__int128>(price) * use.bytes[c]) >> kFraction);
    }
  }
  constant -= static_cast<Cost>(-((-total) >> kFraction));
}

}  // namespace braid::solver
