// Bytes alive while a program is reordered: what a search can afford to ask at every step. In-place reuse and
// the placement are left out, so it stands for the planned bytes (memory_model.h) but is not them: a search
// keeps a limit in live bytes, and its result is measured in planned ones.
//
// Arena and communication segment have bytes of their own, so the peaks of both count, not the peak of their
// sum.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace braid::analysis {

using SpaceBytes = std::array<std::int64_t, 2>;  // arena, communication segment
inline std::int64_t total(const SpaceBytes& b) { return b[0] + b[1]; }

struct LiveTenant {
  std::int64_t bytes = 0;
  int space = 0;
  bool from_begin = false;  // alive before the first node that touches it
  bool to_end = false;      // and after the last one
  std::vector<int> nodes;   // that touch it, ascending, without repetition
};

class LiveBytes {
 public:
  LiveBytes() = default;  // nothing is alive, ever
  LiveBytes(int nodes, std::vector<LiveTenant> tenants);

  const std::vector<LiveTenant>& tenants() const { return tenants_; }
  std::span<const int> touched_by(int node) const {
    const auto n = static_cast<std::size_t>(node);
    return std::span(touched_).subspan(first_touched_[n], first_touched_[n + 1] - first_touched_[n]);
  }
  bool empty() const { return tenants_.empty(); }
  SpaceBytes peaks(std::span<const int> order) const;
  // Of the reversed problem (tails.h).
  LiveBytes reversed(int virtuals) const;

 private:
  int nodes_ = 0;
  std::vector<LiveTenant> tenants_;
  std::vector<std::size_t> first_touched_;
  std::vector<int> touched_;
};

// Which nodes may come next so that the limit can be kept to the end: those after which the remaining nodes,
// in the order of a reference, stay within it. The first remaining node of the reference always may, so a
// list scheduler that asks here never ends in a dead end. Each question O(tenants of the node * log nodes).
class Admission {
 public:
  // `reference` keeps the limit.
  Admission(const LiveBytes& live, std::span<const int> reference, std::int64_t limit);
  // The limit holds if `node` comes next.
  bool may_take(int node);
  void take(int node);
  // The first node of the reference that was not taken.
  int next() const { return reference_[next_]; }

 private:
  struct Change {
    int space;
    int from, to;  // positions of the reference, half open
    std::int64_t bytes;
  };
  // Changes to what the remaining nodes see, into changes_; the peak while the node runs.
  SpaceBytes changes_of(int node);
  void add(int space, int from, int to, std::int64_t bytes);
  // The most that is alive at positions from .. to - 1; node i of the tree spans begin .. end - 1.
  std::int64_t most_in(int space, int i, int begin, int end, int from, int to) const;
  void add(std::vector<std::int64_t>& most, std::vector<std::int64_t>& added, int at, int begin, int end,
           int from, int to, std::int64_t bytes);

  const LiveBytes* live_;
  std::vector<int> reference_, position_;
  std::int64_t limit_;
  std::size_t next_ = 0;
  std::vector<char> taken_;
  std::vector<std::vector<int>> touchers_;  // per tenant: positions in the reference, ascending
  std::vector<int> first_, last_;           // per tenant: of those that remain, indices into touchers_
  std::vector<char> born_;
  SpaceBytes now_{}, peak_{};
  std::array<std::vector<std::int64_t>, 2> most_, added_;  // segment trees over the reference
  std::vector<Change> changes_;
  std::vector<int> ends_;
};

}  // namespace braid::analysis
