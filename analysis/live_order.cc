#include "analysis/live_order.h"

#include <algorithm>
#include <ranges>

namespace braid::analysis {
namespace {

void raise(SpaceBytes& peaks, const SpaceBytes& bytes) {
  for (std::size_t s = 0; s < 2; ++s) peaks[s] = std::max(peaks[s], bytes[s]);
}

}  // namespace

LiveOrder::LiveOrder(const LiveBytes* live, Order order)
    : live_(live != nullptr && !live->empty() ? live : nullptr) {
  set(std::move(order));
}

void LiveOrder::set(Order order) {
  order_ = std::move(order);
  position_ = positions_of(order_);
  peaks_ = {};
  if (live_ == nullptr) return;
  before_.assign(order_.size() + 1, {});
  during_.assign(order_.size(), {});
  lives_.clear();
  for (const LiveTenant& t : live_->tenants()) {
    if (t.from_begin) before_.front()[t.space] += t.bytes;
    lives_.push_back({t.from_begin ? Position{} : Position{0}, t.to_end ? order_.end_id() : Position{0}});
  }
  lives_with_ = lives_;
  update(Position{0}, order_.end_id());
}

SpaceBytes LiveOrder::peaks_with(Position first, std::span<const NodeId> nodes) {
  SpaceBytes peaks = peaks_;
  if (live_ == nullptr) return peaks;
  find_lives(first, nodes, lives_with_);
  SpaceBytes now = before_[first];
  for (const NodeId n : nodes) raise(peaks, execute(n, first++, lives_with_, now));
  return peaks;
}

void LiveOrder::replace(Position first, std::span<const NodeId> nodes) {
  const Position last = first + count_of(nodes);
  std::ranges::copy(nodes, order_.begin() + first.index);
  for (const Position p : IdRange(first, last)) position_[order_[p]] = p;
  if (live_ != nullptr) update(first, last);
}

void LiveOrder::update(Position first, Position last) {
  find_lives(first, order_.slice(first, last), lives_);
  SpaceBytes now = before_[first];
  for (const Position p : IdRange(first, last)) {
    before_[p] = now;
    during_[p] = execute(order_[p], p, lives_, now);
    raise(peaks_, during_[p]);
  }
  before_[last] = now;
}

// A first touch before the range stays, and so does a last touch after it. All others are among `nodes`.
void LiveOrder::find_lives(Position first, std::span<const NodeId> nodes, Lives& lives) const {
  const Position last = first + count_of(nodes);
  for (Position p = first; const NodeId n : nodes) {
    for (const TenantId t : live_->touched_by(n)) lives[t].last = lives_[t].last < last ? p : lives_[t].last;
    ++p;
  }
  for (Position p = last; const NodeId n : std::views::reverse(nodes)) {
    --p;
    for (const TenantId t : live_->touched_by(n))
      lives[t].first = lives_[t].first < first ? lives_[t].first : p;
  }
}

SpaceBytes LiveOrder::execute(NodeId node, Position position, const Lives& lives, SpaceBytes& now) const {
  SpaceBytes dead{};
  for (const TenantId t : live_->touched_by(node)) {
    const LiveTenant& tenant = live_->tenants()[t];
    if (lives[t].first == position) now[tenant.space] += tenant.bytes;
    if (lives[t].last == position) dead[tenant.space] += tenant.bytes;
  }
  // Bytes that one tenant hands to another at this node count once.
  TenantId served;  // the reuses are sorted by `out`
  std::vector<TenantId> taken;
  for (const MemoryModel::Reuse& r : live_->reuses(node)) {
    if (lives[r.out].first != position || lives[r.in].last != position || lives[r.in].first == position)
      continue;
    if (r.out == served || std::ranges::count(taken, r.in) > 0) continue;
    served = r.out;
    taken.push_back(r.in);
    const LiveTenant &in = live_->tenants()[r.in], &out = live_->tenants()[r.out];
    const std::int64_t shared = std::min(in.bytes, out.bytes);
    now[out.space] -= shared;
    dead[in.space] -= shared;
  }
  const SpaceBytes during = now;
  for (std::size_t s = 0; s < 2; ++s) now[s] -= dead[s];
  return during;
}

}  // namespace braid::analysis
