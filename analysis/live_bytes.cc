#include "analysis/live_bytes.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Far below every sum of bytes, so that nodes that are gone never hold the maximum.
constexpr std::int64_t kGone = std::int64_t{1} << 60;

}  // namespace

LiveBytes::LiveBytes(int nodes, std::vector<LiveTenant> tenants)
    : nodes_(nodes), tenants_(std::move(tenants)) {
  std::vector<std::size_t> count(at(nodes) + 1, 0);
  for (const LiveTenant& t : tenants_) {
    for (int n : t.nodes) ++count[at(n) + 1];
  }
  for (std::size_t k = 1; k < count.size(); ++k) count[k] += count[k - 1];
  first_touched_ = count;
  touched_.resize(count.back());
  for (std::size_t t = 0; t < tenants_.size(); ++t) {
    for (int n : tenants_[t].nodes) touched_[count[at(n)]++] = static_cast<int>(t);
  }
}

SpaceBytes LiveBytes::peaks(std::span<const int> order) const {
  SpaceBytes now{}, peak{};
  std::vector<std::size_t> left(tenants_.size());
  for (std::size_t t = 0; t < tenants_.size(); ++t) {
    left[t] = tenants_[t].nodes.size();
    if (tenants_[t].from_begin) now[at(tenants_[t].space)] += tenants_[t].bytes;
  }
  peak = now;
  if (tenants_.empty()) return peak;
  for (int n : order) {
    for (int t : touched_by(n)) {
      const LiveTenant& tenant = tenants_[at(t)];
      if (left[at(t)] == tenant.nodes.size() && !tenant.from_begin) now[at(tenant.space)] += tenant.bytes;
    }
    for (std::size_t s = 0; s < 2; ++s) peak[s] = std::max(peak[s], now[s]);
    for (int t : touched_by(n)) {
      const LiveTenant& tenant = tenants_[at(t)];
      if (--left[at(t)] == 0 && !tenant.to_end) now[at(tenant.space)] -= tenant.bytes;
    }
  }
  return peak;
}

LiveBytes LiveBytes::reversed(int virtuals) const {
  std::vector<LiveTenant> out = tenants_;
  for (LiveTenant& t : out) {
    std::swap(t.from_begin, t.to_end);
    for (int& n : t.nodes) n = virtuals + nodes_ - 1 - n;
    std::reverse(t.nodes.begin(), t.nodes.end());
  }
  return LiveBytes(nodes_ + virtuals, std::move(out));
}

Admission::Admission(const LiveBytes& live, std::span<const int> reference, std::int64_t limit)
    : live_(&live),
      reference_(reference.begin(), reference.end()),
      position_(reference.size()),
      limit_(limit),
      taken_(reference.size(), 0) {
  const int n = static_cast<int>(reference.size());
  for (int k = 0; k < n; ++k) position_[at(reference_[at(k)])] = k;
  for (auto& tree : most_) tree.assign(4 * reference.size() + 4, 0);
  for (auto& tree : added_) tree.assign(4 * reference.size() + 4, 0);
  const auto& tenants = live.tenants();
  touchers_.resize(tenants.size());
  for (std::size_t t = 0; t < tenants.size(); ++t) {
    const LiveTenant& tenant = tenants[t];
    for (int node : tenant.nodes) touchers_[t].push_back(position_[at(node)]);
    std::sort(touchers_[t].begin(), touchers_[t].end());
    first_.push_back(0);
    last_.push_back(static_cast<int>(touchers_[t].size()) - 1);
    born_.push_back(tenant.from_begin);
    if (tenant.from_begin) now_[at(tenant.space)] += tenant.bytes;
    if (touchers_[t].empty()) continue;
    const int from = tenant.from_begin ? 0 : touchers_[t].front();
    add(tenant.space, from, tenant.to_end ? n : touchers_[t].back() + 1, tenant.bytes);
  }
  peak_ = now_;
}

void Admission::add(int space, int from, int to, std::int64_t bytes) {
  if (from < to) {
    add(most_[at(space)], added_[at(space)], 1, 0, static_cast<int>(reference_.size()), from, to, bytes);
  }
}

void Admission::add(std::vector<std::int64_t>& most, std::vector<std::int64_t>& added, int i, int begin,
                    int end, int from, int to, std::int64_t bytes) {
  if (from <= begin && end <= to) {
    most[at(i)] += bytes;
    added[at(i)] += bytes;
    return;
  }
  const int middle = (begin + end) / 2;
  if (from < middle) add(most, added, 2 * i, begin, middle, from, to, bytes);
  if (middle < to) add(most, added, 2 * i + 1, middle, end, from, to, bytes);
  most[at(i)] = std::max(most[at(2 * i)], most[at(2 * i + 1)]) + added[at(i)];
}

SpaceBytes Admission::changes_of(int node) {
  changes_.clear();
  const int p = position_[at(node)];
  SpaceBytes running = now_;
  for (int t : live_->touched_by(node)) {
    const LiveTenant& tenant = live_->tenants()[at(t)];
    const std::vector<int>& touchers = touchers_[at(t)];
    // Those that remain, without this node.
    int first = first_[at(t)], last = last_[at(t)];
    while (first <= last &&
           (taken_[at(reference_[at(touchers[at(first)])])] != 0 || touchers[at(first)] == p))
      ++first;
    while (last >= first && (taken_[at(reference_[at(touchers[at(last)])])] != 0 || touchers[at(last)] == p))
      --last;
    const bool others = first <= last;
    const bool born = born_[at(t)] != 0;
    if (!born) running[at(tenant.space)] += tenant.bytes;
    if (!born && (others || tenant.to_end)) {
      // Alive from now on, not only from its first toucher on.
      const int was = others ? std::min(p, touchers[at(first)]) : p;
      changes_.push_back({tenant.space, static_cast<int>(next_), was, tenant.bytes});
    }
    if (!tenant.to_end) {
      const int keep = others ? touchers[at(last)] + 1 : static_cast<int>(next_);
      if (born || others) {
        changes_.push_back({tenant.space, std::min(keep, p + 1), p + 1, -tenant.bytes});
      }
    }
  }
  return running;
}

bool Admission::may_take(int node) {
  if (node == next()) return true;
  const SpaceBytes running = changes_of(node);
  SpaceBytes more{};  // at most, anywhere
  for (const Change& c : changes_) more[at(c.space)] += std::max<std::int64_t>(c.bytes, 0);
  std::int64_t least = 0, most = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    least += std::max(peak_[s], running[s]);
    most += std::max({peak_[s], running[s], most_[s][1] + more[s]});
  }
  if (most <= limit_) return true;
  if (least > limit_) return false;
  // Between the ends of the changes, what is added is the same everywhere.
  const int p = position_[at(node)], n = static_cast<int>(reference_.size());
  std::int64_t sum = 0;
  for (int s = 0; s < 2; ++s) {
    std::int64_t peak = std::max(peak_[at(s)], running[at(s)]);
    ends_.assign({static_cast<int>(next_), p, p + 1, n});
    for (const Change& c : changes_) {
      if (c.space != s || c.from >= c.to) continue;
      ends_.push_back(c.from);
      ends_.push_back(c.to);
    }
    std::sort(ends_.begin(), ends_.end());
    for (std::size_t k = 0; k + 1 < ends_.size(); ++k) {
      const int from = ends_[k], to = ends_[k + 1];
      if (from == to || from == p) continue;
      std::int64_t added = 0;
      for (const Change& c : changes_) {
        if (c.space == s && c.from <= from && to <= c.to) added += c.bytes;
      }
      peak = std::max(peak, most_in(s, 1, 0, n, from, to) + added);
    }
    sum += peak;
    if (sum > limit_) return false;
  }
  return true;
}

std::int64_t Admission::most_in(int space, int i, int begin, int end, int from, int to) const {
  if (from <= begin && end <= to) return most_[at(space)][at(i)];
  const int middle = (begin + end) / 2;
  std::int64_t most = -kGone;
  if (from < middle) most = most_in(space, 2 * i, begin, middle, from, to);
  if (middle < to) most = std::max(most, most_in(space, 2 * i + 1, middle, end, from, to));
  return most + added_[at(space)][at(i)];
}

void Admission::take(int node) {
  const SpaceBytes running = changes_of(node);
  for (const Change& c : changes_) add(c.space, c.from, c.to, c.bytes);
  for (int s = 0; s < 2; ++s) add(s, position_[at(node)], position_[at(node)] + 1, -kGone);
  taken_[at(node)] = 1;
  for (std::size_t s = 0; s < 2; ++s) peak_[s] = std::max(peak_[s], running[s]);
  now_ = running;
  for (int t : live_->touched_by(node)) {
    const std::vector<int>& touchers = touchers_[at(t)];
    int &first = first_[at(t)], &last = last_[at(t)];
    while (first <= last && taken_[at(reference_[at(touchers[at(first)])])] != 0) ++first;
    while (last >= first && taken_[at(reference_[at(touchers[at(last)])])] != 0) --last;
    born_[at(t)] = 1;
    const LiveTenant& tenant = live_->tenants()[at(t)];
    if (first > last && !tenant.to_end) now_[at(tenant.space)] -= tenant.bytes;
  }
  while (next_ < reference_.size() && taken_[at(reference_[next_])] != 0) ++next_;
}

}  // namespace braid::analysis
