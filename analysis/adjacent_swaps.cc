#include "analysis/adjacent_swaps.h"

#include <algorithm>
#include <utility>

namespace braid::analysis {
namespace {}  // namespace

AdjacentSwaps::AdjacentSwaps(const Problem& problem, const MemoryModel& memory)
    : memory_(memory), order_(identity_order(problem.nodes())), position_(positions_of(order_)) {
  for (const Tenant& t : memory.tenants()) {
    first_.push_back(t.nodes.front());
    last_.push_back(t.to_end ? NodeId{} : t.nodes.back());
  }
  std::int64_t before = 0;
  for (const Position p : order_.ids()) {
    const Change c = change_at(at(p));
    before_.push_back(before);
    live_.push_back(before + c.born);
    before += c.born - c.dead;
  }
}

// Reuse that a node makes counts neither as born nor, for that part, as dead.
AdjacentSwaps::Change AdjacentSwaps::change_at(NodeId node) const {
  Change c;
  for (TenantId t : memory_.touched_by(node)) {
    const std::int64_t bytes = memory_.tenants()[t].bytes;
    if (first_[t] == node) c.born += bytes;
    if (last_[t] == node) c.dead += bytes;
  }
  std::vector<TenantId> takes, taken;
  for (const MemoryModel::Reuse& r : memory_.reuses(node)) {
    if (first_[r.out] != node || last_[r.in] != node || first_[r.in] == node) continue;
    if (std::ranges::count(takes, r.out) > 0 || std::ranges::count(taken, r.in) > 0) continue;
    takes.push_back(r.out);
    taken.push_back(r.in);
    const std::int64_t shared = std::min(memory_.tenants()[r.in].bytes, memory_.tenants()[r.out].bytes);
    c.born -= shared;
    c.dead -= shared;
  }
  return c;
}

std::int64_t AdjacentSwaps::swap(Position position) {
  const NodeId a = at(position), b = at(position + 1);
  // What both touch is now born at b and dies at a.
  const std::span<const TenantId> of_a = memory_.touched_by(a), of_b = memory_.touched_by(b);
  for (std::size_t i = 0, k = 0; i < of_a.size() && k < of_b.size();) {
    if (of_a[i] != of_b[k]) {
      of_a[i] < of_b[k] ? ++i : ++k;
      continue;
    }
    const TenantId t = of_a[i];
    if (first_[t] == a) first_[t] = b;
    if (last_[t] == b) last_[t] = a;
    ++i;
    ++k;
  }
  order_[position] = b;
  order_[position + 1] = a;
  position_[b] = position;
  position_[a] = position + 1;
  const Change first = change_at(b), second = change_at(a);
  live_[position] = before_[position] + first.born;
  before_[position + 1] = before_[position] + first.born - first.dead;
  live_[position + 1] = before_[position + 1] + second.born;
  return std::max(live_[position], live_[position + 1]);
}

}  // namespace braid::analysis
