#include "passes/inductor/bubble.h"

#include <algorithm>

namespace braid::passes {

using namespace analysis;

bool Bubble::needs_node_before(const Segment& s) const {
  const NodeId before = order_.at(s.first - 1);
  for (const Position p : IdRange(s.first, s.last + 1)) {
    const std::span<const NodeId> needs = r_.problem.predecessors(order_.at(p));
    if (std::binary_search(needs.begin(), needs.end(), before)) return true;
  }
  return false;
}

bool Bubble::is_needed_by_node_behind(const Segment& s) const {
  const std::span<const NodeId> needs = r_.problem.predecessors(order_.at(s.last + 1));
  for (const Position p : IdRange(s.first, s.last + 1)) {
    if (std::binary_search(needs.begin(), needs.end(), order_.at(p))) return true;
  }
  return false;
}

bool Bubble::swap_all(const std::vector<Position>& positions) {
  const auto swap = [&](Position p) {
    const NodeId swapped[] = {order_.at(p + 1), order_.at(p)};
    order_.replace(p, swapped);
  };
  const auto live = [&](Position p) {
    return std::max(total(order_.during(p)), total(order_.during(p + 1)));
  };
  for (std::size_t k = 0; k < positions.size(); ++k) {
    const std::int64_t allowed = std::max(live_limit_, live(positions[k]));
    swap(positions[k]);
    if (live(positions[k]) <= allowed) continue;
    for (std::size_t undo = k + 1; undo-- > 0;) swap(positions[undo]);
    return false;
  }
  return true;
}

bool Bubble::up(Segment& s) {
  std::vector<Position> positions;
  for (Position p = s.first - 1; p < s.last; ++p) positions.push_back(p);
  const bool moved = swap_all(positions);
  if (moved) --s.first, --s.last;
  return moved;
}

bool Bubble::down(Segment& s) {
  std::vector<Position> positions;
  for (Position p = s.last; p >= s.first; --p) positions.push_back(p);
  const bool moved = swap_all(positions);
  if (moved) ++s.first, ++s.last;
  return moved;
}

std::int64_t live_limit(Reordering& r, double budget) {
  if (!r.context.live_base) r.context.live_base = r.memory.live(identity_order(r.problem.nodes())).peak;
  const auto base = static_cast<double>(*r.context.live_base);
  auto limit = static_cast<std::int64_t>(std::min(base * (1 + budget), 9e18));
  if (r.context.memory_cap) limit = std::min(limit, *r.context.memory_cap);
  return limit;
}

Order within_cap(Reordering& r, std::int64_t limit,
                 const std::function<Order(std::int64_t live_limit)>& decide) {
  r.freedom.live_cap = limit;
  r.freedom.planned_cap = r.context.memory_cap;
  Order order = decide(limit);
  if (!r.context.memory_cap) return order;
  const std::int64_t cap = *r.context.memory_cap;
  const Order input = identity_order(r.problem.nodes());
  const std::int64_t lowest = r.memory.live(input).peak;
  for (int tries = 0; tries < 6; ++tries) {
    const std::int64_t planned = r.memory.planned_bytes(order);
    if (planned <= cap) return order;
    if (limit <= lowest) break;
    limit = std::max(lowest, limit - (planned - cap));
    order = decide(limit);
  }
  return r.memory.planned_bytes(order) <= cap ? order : input;
}

}  // namespace braid::passes
