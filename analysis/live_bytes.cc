#include "analysis/live_bytes.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::analysis {
namespace {

// Far below every sum of bytes, so that nodes that are gone never hold the maximum.
constexpr std::int64_t kGone = std::int64_t{1} << 60;

}  // namespace

LiveBytes::LiveBytes(int nodes, IdVector<TenantId, LiveTenant> tenants) : tenants_(std::move(tenants)) {
  IdVector<NodeId, std::vector<TenantId>> touched(first_ids<NodeId>(nodes));
  for (const TenantId t : tenants_.ids()) {
    for (const NodeId n : tenants_[t].nodes) touched[n].push_back(t);
  }
  for (const std::vector<TenantId>& of_node : touched) {
    touched_.push_back(of_node);
    reuses_.close();
  }
}

LiveBytes::LiveBytes(const MemoryModel& model, bool in_place) {
  tenants_.reserve(model.tenants().size());
  for (const Tenant& t : model.tenants())
    tenants_.push_back({t.bytes, t.comm ? 1U : 0U, false, t.to_end, t.nodes});
  for (const NodeId n : model.nodes()) {
    touched_.push_back(model.touched_by(n));
    reuses_.push_back(in_place ? model.reuses(n) : std::span<const MemoryModel::Reuse>());
  }
}

LiveBytes LiveBytes::reversed(int virtuals) const {
  const int all = virtuals + count_of(nodes());
  IdVector<TenantId, LiveTenant> out = tenants_;
  for (LiveTenant& t : out) {
    std::swap(t.from_begin, t.to_end);
    for (NodeId& n : t.nodes) n = NodeId{all - 1} - n.index;
    std::reverse(t.nodes.begin(), t.nodes.end());
  }
  return LiveBytes(all, std::move(out));
}

Admission::Admission(const LiveBytes& live, OrderView reference, std::int64_t limit)
    : live_(&live),
      reference_(reference.begin(), reference.end()),
      position_(positions_of(reference)),
      limit_(limit),
      taken_(reference.size(), 0) {
  for (auto& tree : most_) tree.assign(4 * reference.size() + 4, 0);
  for (auto& tree : added_) tree.assign(4 * reference.size() + 4, 0);
  const auto& tenants = live.tenants();
  touchers_.resize(tenants.size());
  for (TenantId t : tenants.ids()) {
    const LiveTenant& tenant = tenants[t];
    for (NodeId node : tenant.nodes) touchers_[t].push_back(position_[node]);
    std::sort(touchers_[t].begin(), touchers_[t].end());
    first_.push_back(0);
    last_.push_back(touchers_[t].end_id() - 1);
    born_.push_back(tenant.from_begin);
    if (tenant.from_begin) now_[tenant.space] += tenant.bytes;
    if (touchers_[t].empty()) continue;
    const Position from = tenant.from_begin ? Position{0} : touchers_[t].front();
    add(tenant.space, from, tenant.to_end ? reference.end_id() : touchers_[t].back() + 1, tenant.bytes);
  }
  peak_ = now_;
}

void Admission::add(std::size_t space, Position from, Position to, std::int64_t bytes) {
  if (from < to) {
    add(most_[space], added_[space], 1, Position{0}, reference_.end_id(), from, to, bytes);
  }
}

void Admission::add(Tree& most, Tree& added, int i, Position begin, Position end, Position from, Position to,
                    std::int64_t bytes) {
  if (from <= begin && end <= to) {
    most[i] += bytes;
    added[i] += bytes;
    return;
  }
  const Position middle = begin + (end - begin) / 2;
  if (from < middle) add(most, added, 2 * i, begin, middle, from, to, bytes);
  if (middle < to) add(most, added, 2 * i + 1, middle, end, from, to, bytes);
  most[i] = std::max(most[2 * i], most[2 * i + 1]) + added[i];
}

SpaceBytes Admission::changes_of(NodeId node) {
  changes_.clear();
  const Position p = position_[node];
  SpaceBytes running = now_;
  for (TenantId t : live_->touched_by(node)) {
    const LiveTenant& tenant = live_->tenants()[t];
    const IdVector<int, Position>& touchers = touchers_[t];
    // Those that remain, without this node.
    int first = first_[t], last = last_[t];
    while (first <= last && (taken_[touchers[first]] != 0 || touchers[first] == p)) ++first;
    while (last >= first && (taken_[touchers[last]] != 0 || touchers[last] == p)) --last;
    const bool others = first <= last;
    const bool born = born_[t] != 0;
    if (!born) running[tenant.space] += tenant.bytes;
    if (!born && (others || tenant.to_end)) {
      // Alive from now on, not only from its first toucher on.
      const Position was = others ? std::min(p, touchers[first]) : p;
      changes_.push_back({tenant.space, next_, was, tenant.bytes});
    }
    if (!tenant.to_end) {
      const Position keep = others ? touchers[last] + 1 : next_;
      if (born || others) {
        changes_.push_back({tenant.space, std::min(keep, p + 1), p + 1, -tenant.bytes});
      }
    }
  }
  return running;
}

bool Admission::may_take(NodeId node) {
  if (node == next()) return true;
  const SpaceBytes running = changes_of(node);
  SpaceBytes more{};  // at most, anywhere
  for (const Change& c : changes_) more[c.space] += std::max<std::int64_t>(c.bytes, 0);
  std::int64_t least = 0, most = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    least += std::max(peak_[s], running[s]);
    most += std::max({peak_[s], running[s], most_[s][1] + more[s]});
  }
  if (most <= limit_) return true;
  if (least > limit_) return false;
  // Between the ends of the changes, what is added is the same everywhere.
  const Position p = position_[node], end = reference_.end_id();
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    std::int64_t peak = std::max(peak_[s], running[s]);
    ends_.assign({next_, p, p + 1, end});
    for (const Change& c : changes_) {
      if (c.space != s || c.from >= c.to) continue;
      ends_.push_back(c.from);
      ends_.push_back(c.to);
    }
    std::sort(ends_.begin(), ends_.end());
    for (std::size_t k = 0; k + 1 < ends_.size(); ++k) {
      const Position from = ends_[k], to = ends_[k + 1];
      if (from == to || from == p) continue;
      std::int64_t added = 0;
      for (const Change& c : changes_) {
        if (c.space == s && c.from <= from && to <= c.to) added += c.bytes;
      }
      peak = std::max(peak, most_in(s, 1, Position{0}, end, from, to) + added);
    }
    sum += peak;
    if (sum > limit_) return false;
  }
  return true;
}

std::int64_t Admission::most_in(std::size_t space, int i, Position begin, Position end, Position from,
                                Position to) const {
  if (from <= begin && end <= to) return most_[space][i];
  const Position middle = begin + (end - begin) / 2;
  std::int64_t most = -kGone;
  if (from < middle) most = most_in(space, 2 * i, begin, middle, from, to);
  if (middle < to) most = std::max(most, most_in(space, 2 * i + 1, middle, end, from, to));
  return most + added_[space][i];
}

void Admission::take(NodeId node) {
  const SpaceBytes running = changes_of(node);
  for (const Change& c : changes_) add(c.space, c.from, c.to, c.bytes);
  for (std::size_t s = 0; s < 2; ++s) add(s, position_[node], position_[node] + 1, -kGone);
  taken_[position_[node]] = 1;
  for (std::size_t s = 0; s < 2; ++s) peak_[s] = std::max(peak_[s], running[s]);
  now_ = running;
  for (TenantId t : live_->touched_by(node)) {
    const IdVector<int, Position>& touchers = touchers_[t];
    int &first = first_[t], &last = last_[t];
    while (first <= last && taken_[touchers[first]] != 0) ++first;
    while (last >= first && taken_[touchers[last]] != 0) --last;
    born_[t] = 1;
    const LiveTenant& tenant = live_->tenants()[t];
    if (first > last && !tenant.to_end) now_[tenant.space] -= tenant.bytes;
  }
  while (next_ < reference_.end_id() && taken_[next_] != 0) ++next_;
}

}  // namespace braid::analysis
