// Removal of choices and variables (network.h). All tables are at least 0 here, so the constant is a lower
// bound. The smallest entry of each table that a removal produces is moved into the constant.
#include <algorithm>
#include <bit>
#include <utility>

#include "ir/error.h"
#include "solver/network.h"

namespace braid::solver {

namespace {

constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

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

// Smallest values of ranges, in constant time after n log n.
class RangeMinimum {
 public:
  explicit RangeMinimum(std::vector<std::int64_t> values) {
    levels_.push_back(std::move(values));
    for (std::size_t width = 1; 2 * width <= levels_[0].size(); width *= 2) {
      const std::vector<std::int64_t>& last = levels_.back();
      std::vector<std::int64_t> next(last.size() - width);
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = std::min(last[i], last[i + width]);
      levels_.push_back(std::move(next));
    }
  }
  std::int64_t operator()(int begin, int end) const {
    const int level = std::bit_width(static_cast<unsigned>(end - begin)) - 1;
    return std::min(levels_[level][begin], levels_[level][end - (1 << level)]);
  }

 private:
  std::vector<std::vector<std::int64_t>> levels_;
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

void Network::lift(int variable) {
  const Cost least = take_least(nodes[variable].costs);
  constant = plus(constant, least);
  if (forbidden(constant)) infeasible = true;
}

void Network::touch_all() {
  for (int v = 0; v < static_cast<int>(nodes.size()); ++v) touch(v);
}

bool Network::relax_rows(std::vector<std::int64_t>& prices) {
  std::vector<std::int64_t> step(limits.size() + 1, 0);
  std::vector<int> used(limits.size() + 1, 0);  // uses at each row, as differences
  for (const Use& use : uses) {
    if (!use.alive) continue;
    const std::int64_t most = *std::max_element(use.bytes.begin(), use.bytes.end());
    for (const RowRange& range : *use.rows) {
      step[range.begin] += most;
      step[range.end] -= most;
      ++used[range.begin];
      --used[range.end];
    }
  }
  std::vector<std::int64_t> change(limits.size(), 0);
  std::vector<int> relaxed(limits.size() + 1, 0);  // how many before the row
  std::int64_t occupied = 0;
  int uses_here = 0;
  bool any = false;
  for (std::size_t row = 0; row < limits.size(); ++row) {
    occupied += step[row];
    uses_here += used[row];
    const bool relax = occupied <= limits[row];
    relaxed[row + 1] = relaxed[row] + (relax ? 1 : 0);
    if (!relax) continue;
    if (uses_here > 0 || prices[row] != 0) any = true;
    change[row] = -prices[row];
    prices[row] = 0;
  }
  if (!any) return false;
  add_prices(change);
  for (int use = 0; use < static_cast<int>(uses.size()); ++use) {
    Use& u = uses[use];
    if (!u.alive) continue;
    const bool touched = std::any_of(u.rows->begin(), u.rows->end(), [&](const RowRange& range) {
      return relaxed[range.end] > relaxed[range.begin];
    });
    if (!touched) continue;
    auto rows = std::make_shared<std::vector<RowRange>>();
    for (const RowRange& range : *u.rows) {
      for (int row = range.begin; row < range.end; ++row) {
        if (relaxed[row + 1] > relaxed[row]) continue;
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
  for (int v = 0; v < static_cast<int>(nodes.size()); ++v) combine_uses(v);
  settle_limits();
  return true;
}

std::vector<Cost> Network::bounds_of(int variable) const {
  const Node& node = nodes[variable];
  const auto own = static_cast<std::size_t>(size(variable));
  std::vector<Cost> bound = node.costs, least(own);
  for (int pair : node.pairs) {
    const Pair& p = pairs[pair];
    const auto others = static_cast<std::size_t>(size(p.other(variable)));
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
bool Network::filter_node(int variable, Cost below) {
  for (int pair : nodes[variable].pairs) cells += static_cast<std::int64_t>(pairs[pair].costs.size());
  const std::vector<Cost> bound = bounds_of(variable);
  const auto stays = [&](Cost cost) { return !forbidden(cost) && cost < below; };
  if (std::ranges::all_of(bound, stays)) return false;
  std::vector<int> keep;
  for (int c = 0; c < size(variable); ++c)
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
  struct Segment {
    int variable, begin, end;
    std::vector<std::int64_t> bytes;
  };
  std::vector<Segment> segments;
  std::vector<std::int64_t> step(limits.size() + 1, 0);
  for (int v = 0; v < static_cast<int>(nodes.size()); ++v) {
    const std::vector<int>& list = nodes[v].uses;
    if (list.empty()) continue;
    std::vector<int> borders;
    for (int use : list) {
      for (const RowRange& range : *uses[use].rows) borders.insert(borders.end(), {range.begin, range.end});
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    const std::size_t first = segments.size();
    for (std::size_t b = 0; b + 1 < borders.size(); ++b)
      segments.push_back({v, borders[b], borders[b + 1], std::vector<std::int64_t>(size(v), 0)});
    for (int use : list) {
      for (const RowRange& range : *uses[use].rows) {
        auto s = first + (std::ranges::lower_bound(borders, range.begin) - borders.begin());
        for (; s < segments.size() && segments[s].begin < range.end; ++s) {
          for (int c = 0; c < size(v); ++c) segments[s].bytes[c] += uses[use].bytes[c];
          cells += size(v);
        }
      }
    }
    for (std::size_t s = first; s < segments.size(); ++s) {
      Segment& segment = segments[s];
      const std::int64_t least = *std::min_element(segment.bytes.begin(), segment.bytes.end());
      step[segment.begin] += least;
      step[segment.end] -= least;
      for (std::int64_t& bytes : segment.bytes) bytes -= least;
    }
  }
  std::vector<std::int64_t> slack(limits.size());
  std::int64_t occupied = 0;
  for (std::size_t row = 0; row < limits.size(); ++row) {
    occupied += step[row];
    slack[row] = limits[row] - occupied;
    if (slack[row] < 0) {
      infeasible = true;
      return true;
    }
  }
  const RangeMinimum least_slack(std::move(slack));
  bool changed = false;
  std::vector<char> out;
  for (std::size_t s = 0; s < segments.size();) {
    const int v = segments[s].variable;
    out.assign(size(v), 0);
    bool any = false;
    for (; s < segments.size() && segments[s].variable == v; ++s) {
      const std::int64_t room = least_slack(segments[s].begin, segments[s].end);
      for (int c = 0; c < static_cast<int>(out.size()); ++c) {
        if (segments[s].bytes[c] > room) out[c] = 1, any = true;
      }
    }
    if (!any) continue;
    std::vector<int> keep;
    for (int c = 0; c < static_cast<int>(out.size()); ++c) {
      if (!out[c]) keep.push_back(c);
    }
    keep_choices(v, keep);
    if (infeasible) return true;
    constant += take_least(nodes[v].costs);
    changed = true;
  }
  return changed;
}

// Pairs that are the sum of two functions of one variable each.
bool Network::simplify_pairs(int variable) {
  bool changed = false;
  const std::vector<int> list = nodes[variable].pairs;
  std::vector<Cost> row_part, column_part;
  for (int pair : list) {
    Pair& p = pairs[pair];
    const int rows = size(p.from), columns = size(p.to);
    const auto row_of = [&](int i) { return p.costs.data() + static_cast<std::size_t>(i) * columns; };
    const Cost* const first = row_of(0);
    bool separable = std::none_of(first, first + columns, forbidden);
    for (int i = 1; i < rows && separable; ++i) {
      const Cost* const row = row_of(i);
      const Cost more = row[0] - first[0];
      for (int j = 0; j < columns && separable; ++j)
        separable = !forbidden(row[j]) && row[j] - first[j] == more;
    }
    if (!separable) continue;
    column_part.assign(first, first + columns);
    row_part.clear();
    for (int i = 0; i < rows; ++i) row_part.push_back(row_of(i)[0] - first[0]);
    // Both parts at least 0: the table's smallest entry is the sum of the smallest parts.
    const Cost shift = *std::min_element(row_part.begin(), row_part.end());
    for (int i = 0; i < rows; ++i) nodes[p.from].costs[i] = plus(nodes[p.from].costs[i], row_part[i] - shift);
    for (int j = 0; j < columns; ++j)
      nodes[p.to].costs[j] = plus(nodes[p.to].costs[j], column_part[j] + shift);
    for (int v : {p.from, p.to}) {
      const Cost least = take_least(nodes[v].costs);
      if (forbidden(least)) {
        infeasible = true;
        return true;
      }
      constant += least;
      touch(v);
    }
    const int from = p.from, to = p.to;
    drop_pair(pair);
    touch_around(from);
    touch_around(to);
    changed = true;
  }
  return changed;
}

bool Network::remove_single(int variable) {
  if (size(variable) != 1) return false;
  constant = plus(constant, nodes[variable].costs[0]);
  if (forbidden(constant)) {
    infeasible = true;
    return true;
  }
  for (int pair : nodes[variable].pairs) {
    const Pair& p = pairs[pair];
    const int other = p.other(variable);
    for (int c = 0; c < size(other); ++c) nodes[other].costs[c] = plus(nodes[other].costs[c], p.costs[c]);
    const Cost least = take_least(nodes[other].costs);
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
bool Network::merge_determined(int variable) {
  int into = -1, through = -1;
  for (int pair : nodes[variable].pairs) {
    const Pair& p = pairs[pair];
    const int other = p.other(variable);
    if (into >= 0 && size(other) >= size(into)) continue;
    if (size(other) < size(variable)) continue;  // each choice has a partner, so no function
    bool determined = true;
    for (int i = 0; i < size(other) && determined; ++i) {
      int partners = 0;
      for (int j = 0; j < size(variable); ++j) partners += !forbidden(cost(p, other, i, j));
      determined = partners == 1;
    }
    if (determined) into = other, through = pair;
  }
  if (into < 0) return false;
  // The neighbours' tables become larger by the ratio of sizes: at most so much.
  std::int64_t before = 0, after = 0;
  for (int pair : nodes[variable].pairs) {
    const std::int64_t m = size(pairs[pair].other(variable));
    before += m * size(variable);
    after += m * size(into);
  }
  if (after > 4 * before + 65536) return false;

  std::vector<int> image(size(into), -1);
  for (int i = 0; i < size(into); ++i) {
    for (int j = 0; j < size(variable); ++j) {
      const Cost here = cost(pairs[through], into, i, j);
      if (forbidden(here)) continue;
      image[i] = j;
      nodes[into].costs[i] = plus(nodes[into].costs[i], plus(here, nodes[variable].costs[j]));
    }
  }
  record(variable, {into}, std::make_shared<const std::vector<int>>(image));
  const std::vector<int> list = nodes[variable].pairs;
  for (int pair : list) {
    if (pair == through) continue;
    const int other = pairs[pair].other(variable);
    std::vector<Cost> table;
    table.reserve(static_cast<std::size_t>(size(into)) * size(other));
    for (int i = 0; i < size(into); ++i) {
      for (int c = 0; c < size(other); ++c) table.push_back(cost(pairs[pair], variable, image[i], c));
    }
    const int added = add_pair(into, other, std::move(table));
    constant = plus(constant, take_least(pairs[added].costs));
    touch(other);
  }
  // Each had uses in different rows: the fewer are looked for among the others.
  std::vector<int> moved = std::exchange(nodes[variable].uses, {}), own = std::exchange(nodes[into].uses, {});
  for (int use : moved) {
    std::vector<std::int64_t> bytes(size(into));
    for (int i = 0; i < size(into); ++i) bytes[i] = uses[use].bytes[image[i]];
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
bool Network::remove_small_degree(int variable) {
  const Node& node = nodes[variable];
  if (!node.uses.empty() || node.pairs.size() > 2) return false;
  const int n = size(variable);
  if (node.pairs.empty()) {
    const auto best = std::min_element(node.costs.begin(), node.costs.end());
    constant = plus(constant, *best);
    record(variable, {},
           std::make_shared<const std::vector<int>>(1, static_cast<int>(best - node.costs.begin())));
    drop_node(variable);
    return true;
  }
  Pair* const around[2] = {&pairs[node.pairs[0]], node.pairs.size() == 2 ? &pairs[node.pairs[1]] : nullptr};
  const int a = around[0]->other(variable);
  const int b = around[1] == nullptr ? -1 : around[1]->other(variable);
  const int rows = size(a), columns = b < 0 ? 1 : size(b);
  const std::int64_t work = static_cast<std::int64_t>(rows) * columns * n;
  constexpr std::int64_t kWorthKeeping = 2048;
  constexpr std::size_t kMostKept = 1024;
  const bool worth = work >= kWorthKeeping;
  Removed removed;
  const Removed* known = nullptr;
  std::uint64_t hash = 0;
  const auto is_known = [&](const Removed& other) {
    const auto equal = [&](int k) {
      if (around[k] == nullptr) return !other.from[k] && other.pairs[k].empty();
      return other.from[k] == (around[k]->from == variable) && around[k]->costs == other.pairs[k];
    };
    return other.own == node.costs && equal(0) && equal(1);
  };
  if (worth) {
    hash = hash_of(node.costs);
    for (const Pair* pair : around) {
      if (pair != nullptr)
        hash = (hash ^ hash_of(pair->costs.costs()) ^ (pair->from == variable)) * 0x9e3779b97f4a7c15u;
    }
    const auto [begin, end] = kept_->equal_range(hash);
    for (auto kept = begin; kept != end && known == nullptr; ++kept)
      if (is_known(kept->second)) known = &kept->second;
  }
  if (known == nullptr) {
    cells += work;
    std::vector<Cost> costs_left(static_cast<std::size_t>(rows) * columns, kForbiddenFrom);
    auto own = std::make_shared<std::vector<int>>(costs_left.size(), -1);
    std::vector<Cost> turned[2];  // both pairs' costs, row-major from this variable
    const Cost* costs[2] = {nullptr, nullptr};
    for (int k = 0; k < 2 && around[k] != nullptr; ++k) {
      const Pair& p = *around[k];
      costs[k] = p.costs.data();
      if (p.from == variable) continue;
      const auto others = static_cast<std::size_t>(size(p.from));
      turned[k].resize(p.costs.size());
      for (std::size_t j = 0; j < others; ++j) {
        const Cost* row = costs[k] + j * static_cast<std::size_t>(n);
        for (std::size_t c = 0; c < static_cast<std::size_t>(n); ++c) turned[k][c * others + j] = row[c];
      }
      costs[k] = turned[k].data();
    }
    for (int c = 0; c < n; ++c) {
      const Cost* const first = costs[0] + static_cast<std::ptrdiff_t>(c) * rows;
      const Cost* const second = b < 0 ? nullptr : costs[1] + static_cast<std::ptrdiff_t>(c) * columns;
      for (int i = 0; i < rows; ++i) {
        const Cost mine = plus(node.costs[c], first[i]);
        if (forbidden(mine)) continue;
        Cost* const row = &costs_left[static_cast<std::size_t>(i) * columns];
        int* const best = &(*own)[static_cast<std::size_t>(i) * columns];
        if (b < 0) {
          if (mine < row[0]) row[0] = mine, best[0] = c;
          continue;
        }
        // Forbidden entries are kInside, so the sum stays above what is allowed.
        take_cheaper(row, best, second, mine, c, static_cast<std::size_t>(columns));
      }
    }
    std::ranges::replace(costs_left, kForbiddenFrom, kInside);
    removed.least = take_least(costs_left);
    removed.costs = std::move(costs_left);
    removed.choice = std::move(own);
    known = &removed;
    if (worth && kept_->size() < kMostKept) {
      removed.own = node.costs;
      for (int k = 0; k < 2 && around[k] != nullptr; ++k) {
        removed.pairs[k] = around[k]->costs.share();
        removed.from[k] = around[k]->from == variable;
      }
      removed.costs.share();
      known = &kept_->emplace(hash, std::move(removed))->second;
    }
  }
  record(variable, b < 0 ? std::vector<int>{a} : std::vector<int>{a, b}, known->choice);
  drop_node(variable);
  constant = plus(constant, known->least);
  if (b < 0) {
    const std::vector<Cost>& left = known->costs.costs();
    for (int i = 0; i < rows; ++i) nodes[a].costs[i] = plus(nodes[a].costs[i], left[i]);
    constant = plus(constant, take_least(nodes[a].costs));
  } else {
    const bool joins = find_pair(a, b) >= 0;
    const int added = add_pair(a, b, known == &removed ? std::move(removed.costs) : known->costs);
    if (joins) constant = plus(constant, take_least(pairs[added].costs));
    touch(b);
  }
  touch(a);
  if (forbidden(constant)) infeasible = true;
  return true;
}

// Removes choices that cost at least as much as another one whatever the neighbours choose, and occupy at
// least as much.
bool Network::dominate(int variable) {
  const Node& node = nodes[variable];
  const auto n = static_cast<std::size_t>(size(variable));
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
    t.columns = static_cast<std::size_t>(size(p.other(variable)));
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
      t.where.push_back(static_cast<std::size_t>(least - t.row(i)));
      bound[i] = plus(bound[i], *least);
    }
    cells += static_cast<std::int64_t>(p.costs.size());
  }
  // Adds the largest loss with each neighbour, one after another. Those still to come count only with the
  // best partner of the worse choice.
  const auto replaces = [&](std::size_t better, std::size_t worse) {
    if (bound[better] > bound[worse]) return false;
    for (int use : node.uses) {
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
      cells += static_cast<std::int64_t>(t.columns);
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
  std::vector<int> keep;
  for (std::size_t c = 0; c < n; ++c) {
    if (out[c] == 0) keep.push_back(static_cast<int>(c));
  }
  keep_choices(variable, keep);
  constant += take_least(nodes[variable].costs);
  return true;
}

void Network::propagate(Cost below) {
  while (!queue_.empty() && !infeasible && constant < below) {
    const std::vector<int> batch = std::exchange(queue_, {});
    for (int v : batch) {
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
    for (int v = 0; dominance && v < static_cast<int>(nodes.size()); ++v) {
      if (nodes[v].alive && !nodes[v].fixed && to_compare_[v]) changed |= dominate(v);
      to_compare_[v] = 0;
    }
    if (!changed) break;
  }
  settle_limits();
  for (int v : queue_) queued_[v] = 0;
  queue_.clear();
}

void Network::add_prices(const std::vector<std::int64_t>& prices) {
  // Sums of prices up to each row: a range costs the difference.
  std::vector<std::int64_t> sums(prices.size() + 1, 0);
  __int128 total = 0;
  for (std::size_t row = 0; row < prices.size(); ++row) {
    sums[row + 1] = sums[row] + prices[row];
    total += static_cast<__int128>(prices[row]) * limits[row];
  }
  // Rounded so that no choice within the limits costs more than without prices: costs down, the worth of the
  // limits up.
  constexpr int kFraction = 32;
  for (const Use& use : uses) {
    if (!use.alive) continue;
    std::int64_t price = 0;
    for (const RowRange& range : *use.rows) price += sums[range.end] - sums[range.begin];
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
