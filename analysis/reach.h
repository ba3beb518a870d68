// Which collectives are complete before which others can begin: reachability among collectives only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <ranges>
#include <vector>

#include "analysis/problem.h"

namespace braid::analysis {

// A subset of 512 consecutive collectives, so that the sets of all nodes need 64 bytes each.
class CollectiveSet {
 public:
  static constexpr int kSize = 512;
  using Words = std::array<std::uint64_t, kSize / 64>;

  void add(const CollectiveSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void set(int bit) { words_[ir::offset_of(bit / 64)] |= std::uint64_t{1} << (bit % 64); }
  void reset(int bit) { words_[ir::offset_of(bit / 64)] &= ~(std::uint64_t{1} << (bit % 64)); }
  const Words& words() const { return words_; }

 private:
  Words words_{};
};

// visit(first, last): the collectives of a problem, in blocks of at most CollectiveSet::kSize.
template <class Visit>
void each_block(const Problem& p, Visit visit) {
  const CollectiveId end = p.collectives.end_id();
  for (CollectiveId first{0}; first < end; first = first + CollectiveSet::kSize)
    visit(first, std::min(end, first + CollectiveSet::kSize));
}

// Per node n: the collectives in [first, last) with a marked step in a node on which n depends, directly or
// not (`behind`: in a node that depends on n).
enum class Side : std::uint8_t { before, behind };
template <class Marked>
void gather(const Problem& p, Side side, CollectiveId first, CollectiveId last, Marked marked,
            IdVector<NodeId, CollectiveSet>& sets) {
  sets.resize(p.nodes().size());
  const auto visit = [&](NodeId n) {
    sets[n] = {};
    for (const NodeId other : side == Side::before ? p.predecessors(n) : p.successors(n)) {
      sets[n].add(sets[other]);
      for (const Step& s : p.steps_of(other)) {
        if (s.collective >= first && s.collective < last && marked(s)) sets[n].set(s.collective - first);
      }
    }
  };
  if (side == Side::before) {
    std::ranges::for_each(p.nodes(), visit);
  } else {
    std::ranges::for_each(std::views::reverse(p.nodes()), visit);
  }
}

class Reach {
 public:
  explicit Reach(const Problem& problem);
  // Whether the start of `b` depends, directly or not, on the start of `a`.
  bool completes_before(CollectiveId a, CollectiveId b) const {
    const std::size_t bit = ir::offset_of(a);
    return (rows_[ir::offset_of(b) * words_ + bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> rows_;  // per collective: the set of those before it
};

}  // namespace braid::analysis
