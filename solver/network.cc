#include "solver/network.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "ir/error.h"

namespace braid::solver {

namespace {

// The largest bytes at each row if all variables take their largest choices.
IdVector<RowId, std::int64_t> largest_occupation(const Problem& problem) {
  RowSums bytes(problem.limits.ids());
  for (const Usage& usage : problem.usages) {
    const std::int64_t most = *std::max_element(usage.bytes.begin(), usage.bytes.end());
    for (const RowRange& range : usage.rows) bytes.add(range, most);
  }
  return bytes.take();
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
      for (const ChoiceId label : labels[k].all()) next.push_back(cell * sizes[k] + ir::offset_of(label));
    }
    cells = std::move(next);
  }
  return cells;
}

Network::Network(const Problem& problem, Cost scale)
    : nodes(problem.variables.ids()),
      taken_(problem.limits.ids()),
      queued_(problem.variables.ids(), 0),
      to_compare_(problem.variables.ids(), 1) {
  std::map<std::size_t, Labels> all;  // by number
  for (const VariableId v : nodes.ids()) {
    const CostTable& costs = problem.variables[v];
    nodes[v].costs.reserve(costs.size());
    for (const Cost cost : costs) nodes[v].costs.push_back(cost == kForbidden ? kInside : cost * scale);
    const auto [labels, fresh] = all.try_emplace(costs.size());
    if (fresh) {
      const IdRange<ChoiceId> choices = problem.choices_of(v);
      labels->second = Labels({choices.begin(), choices.end()});
    }
    nodes[v].labels = labels->second;
  }
  add_pairs(problem.edges, scale);
  add_uses(problem);
  for (const VariableId v : nodes.ids()) {
    combine_uses(v);
    touch(v);
  }
  settle_limits();
}

void Network::add_pairs(const IdVector<EdgeId, Edge>& edges, Cost scale) {
  std::unordered_map<const void*, CostTable> tables;  // scaled; of equal layers once
  for (const Edge& edge : edges) {
    const auto [table, added] = tables.try_emplace(edge.costs.address());
    if (added) table->second = scaled(edge.costs, scale);
    const CostTable& costs = table->second;
    if (edge.from == edge.to) {
      std::vector<Cost>& own = nodes[edge.from].costs;
      for (std::size_t c = 0; c < own.size(); ++c) own[c] = plus(own[c], costs[c * own.size() + c]);
    } else {
      add_pair(edge.from, edge.to, costs);
    }
  }
}

// Leaves out rows that even the largest choices keep.
void Network::add_uses(const Problem& problem) {
  const IdVector<RowId, std::int64_t> largest = largest_occupation(problem);
  IdVector<RowId, RowId> number = {RowId{0}};
  for (const RowId row : problem.limits.ids()) {
    if (largest[row] > problem.limits[row]) limits.push_back(problem.limits[row]);
    number.push_back(limits.end_id());
  }
  taken_ = RowSums(limits.ids());
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
    const UseId use = uses.end_id();
    uses.push_back({usage.variable, usage.bytes, nullptr});
    uses.back().set_rows(std::move(rows));
    nodes[usage.variable].uses.push_back(use);
    normalise_use(use);
  }
}

void Network::multiply_costs(Cost factor) {
  const auto multiply = [&](std::vector<Cost>& costs) {
    for (Cost& cost : costs) cost = forbidden(cost) ? kInside : cost * factor;
  };
  for (Node& node : nodes) multiply(node.costs);
  for (Pair& pair : pairs) multiply(pair.costs.edit());
  constant *= factor;
}

PairId Network::find_pair(VariableId a, VariableId b) const {
  const VariableId scan = nodes[a].pairs.size() <= nodes[b].pairs.size() ? a : b;
  for (const PairId pair : nodes[scan].pairs) {
    if (pairs[pair].other(scan) == (scan == a ? b : a)) return pair;
  }
  return {};
}

bool Network::constrained() const {
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.alive; });
}

void Network::touch(VariableId variable) {
  if (queued_[variable] || !nodes[variable].alive) return;
  queued_[variable] = 1;
  queue_.push_back(variable);
}

void Network::touch_around(VariableId variable) {
  touch(variable);
  for (const PairId pair : nodes[variable].pairs) touch(pairs[pair].other(variable));
}

PairId Network::add_pair(VariableId a, VariableId b, PairCosts costs) {
  PairId pair = find_pair(a, b);
  cells += costs.size();
  if (!pair.valid()) {
    if (free_.empty()) {
      pair = pairs.end_id();
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
  const std::size_t rows = size(a), columns = size(b);
  std::vector<Cost>& sums = pairs[pair].costs.edit();
  const bool same_way = pairs[pair].from == a;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      Cost& sum = sums[same_way ? i * columns + j : j * rows + i];
      sum = plus(sum, costs[i * columns + j]);
    }
  }
  return pair;
}

void Network::drop_pair(PairId pair) {
  for (const VariableId v : {pairs[pair].from, pairs[pair].to}) std::erase(nodes[v].pairs, pair);
  pairs[pair].alive = false;
  pairs[pair].costs = PairCosts();
  free_.push_back(pair);
}

void Network::drop_node(VariableId variable) {
  Node& node = nodes[variable];
  const std::vector<PairId> own = std::exchange(node.pairs, {});  // there may be thousands
  for (const PairId pair : own) drop_pair(pair);
  for (const UseId use : node.uses) uses[use].alive = false;
  node = Node{};
  node.alive = false;
}

void Network::normalise_use(UseId use) {
  Use& u = uses[use];
  const auto [least, most] = std::minmax_element(u.bytes.begin(), u.bytes.end());
  const std::int64_t base = *least;
  const bool constant_bytes = base == *most;
  if (base != 0) {
    for (std::int64_t& bytes : u.bytes) bytes -= base;
    for (const RowRange& range : *u.rows) taken_.add(range, base);
    taken_any_ = true;
  }
  if (constant_bytes) {
    u.alive = false;
    std::erase(nodes[u.variable].uses, use);
  }
}

void Network::settle_limits() {
  if (!taken_any_) return;
  const IdVector<RowId, std::int64_t> taken = std::exchange(taken_, RowSums(limits.ids())).take();
  for (const RowId row : limits.ids()) {
    limits[row] -= taken[row];
    if (limits[row] < 0) infeasible = true;
  }
  taken_any_ = false;
}

void Use::set_rows(std::shared_ptr<const std::vector<RowRange>> now) {
  rows = std::move(now);
  hash = rows->size();
  for (const RowRange& range : *rows) {
    for (const RowId row : {range.begin, range.end})
      hash = (hash ^ ir::offset_of(row) ^ (hash >> 29)) * 0x9e3779b97f4a7c15u;
  }
}

void Network::combine_uses(VariableId variable, std::size_t distinct) {
  std::vector<UseId>& list = nodes[variable].uses;
  std::vector<UseId> changed;
  for (std::size_t k = distinct; k < list.size(); ++k) {
    Use& own = uses[list[k]];
    const std::span<const UseId> before = std::span(list).first(distinct);
    const auto known = std::ranges::find_if(before, [&](UseId other) {
      const Use& theirs = uses[other];
      return theirs.hash == own.hash && (theirs.rows == own.rows || *theirs.rows == *own.rows);
    });
    if (known == before.end()) {
      list[distinct++] = list[k];
      continue;
    }
    std::vector<std::int64_t>& bytes = uses[*known].bytes;
    for (std::size_t c = 0; c < bytes.size(); ++c) bytes[c] += own.bytes[c];
    own.alive = false;
    changed.push_back(*known);
  }
  list.resize(distinct);
  for (const UseId use : changed)
    if (uses[use].alive) normalise_use(use);
}

void Network::keep_choices(VariableId variable, const std::vector<std::size_t>& keep) {
  Node& node = nodes[variable];
  const std::size_t before = size(variable);
  if (keep.size() == before) return;
  if (keep.empty()) {
    infeasible = true;
    return;
  }
  for (const PairId pair : node.pairs) {
    Pair& p = pairs[pair];
    cells += p.costs.size();
    std::vector<Cost> kept;
    if (p.from == variable) {
      const std::size_t columns = size(p.to);
      kept.reserve(keep.size() * columns);
      for (const std::size_t c : keep) {
        const Cost* row = p.costs.data() + c * columns;
        kept.insert(kept.end(), row, row + columns);
      }
    } else {
      const std::size_t rows = size(p.from);
      kept.reserve(keep.size() * rows);
      for (std::size_t r = 0; r < rows; ++r) {
        const Cost* row = p.costs.data() + r * before;
        for (const std::size_t c : keep) kept.push_back(row[c]);
      }
    }
    p.costs = std::move(kept);
  }
  const auto select = [&](auto& values) {
    for (std::size_t i = 0; i < keep.size(); ++i) values[i] = values[keep[i]];
    values.resize(keep.size());
  };
  select(node.costs);
  std::vector<ChoiceId> labels = node.labels.all();
  select(labels);
  node.labels = Labels(std::move(labels));
  for (const UseId use : node.uses) select(uses[use].bytes);
  for (std::size_t i = node.uses.size(); i-- > 0;) normalise_use(node.uses[i]);
  touch_around(variable);
}

void Network::record(VariableId variable, const std::vector<VariableId>& on,
                     std::shared_ptr<const std::vector<int>> choice, std::shared_ptr<const TableSum> sum) {
  auto step = std::make_shared<Step>();
  step->variable = variable;
  step->labels = nodes[variable].labels;
  step->on.reserve(on.size());
  for (const VariableId v : on) step->on.emplace_back(v, nodes[v].labels);
  step->choice = std::move(choice);
  step->sum = std::move(sum);
  step->before = steps_;
  steps_ = std::move(step);
}

void Network::restore(Assignment& choice) const {
  std::vector<std::size_t> places;  // of the choices of `on`
  for (const Step* step = steps_.get(); step; step = step->before.get()) {
    places.clear();
    std::size_t cell = 0;
    for (const auto& [variable, labels] : step->on) {
      const std::optional<std::size_t> place = labels.place_of(choice[variable]);
      ir::internal_check(place.has_value(), "variable {} depends on {}, which has no choice",
                         step->variable.index, variable.index);
      places.push_back(*place);
      cell = cell * labels.size() + *place;
    }
    const int own = step->sum ? best_choice(*step->sum, places) : (*step->choice)[cell];
    ir::internal_check(own >= 0, "variable {} has no choice", step->variable.index);
    choice[step->variable] = step->labels[own];
  }
}

}  // namespace braid::solver
