#include "analysis/reach.h"

#include <algorithm>

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// In blocks of 512 collectives, so that the sets of all nodes need no more than 64 bytes each.
Reach::Reach(const Problem& p)
    : words_((p.collectives.size() + 63) / 64), rows_(words_ * p.collectives.size(), 0) {
  constexpr std::size_t kWords = 8;
  std::vector<std::uint64_t> sets(at(p.size()) * kWords);
  for (std::size_t first = 0; first < words_; first += kWords) {
    const std::size_t count = std::min(kWords, words_ - first);
    std::fill(sets.begin(), sets.end(), 0);
    for (int n = 0; n < p.size(); ++n) {
      std::uint64_t* set = &sets[at(n) * kWords];
      for (int before : p.predecessors(n)) {
        for (std::size_t w = 0; w < count; ++w) set[w] |= sets[at(before) * kWords + w];
      }
      for (const Step& s : p.steps_of(n)) {
        if (s.kind != Step::Kind::start) continue;
        for (std::size_t w = 0; w < count; ++w) rows_[at(s.collective) * words_ + first + w] = set[w];
        const std::size_t bit = at(s.collective);
        if (bit / 64 >= first && bit / 64 < first + count)
          set[bit / 64 - first] |= std::uint64_t{1} << (bit % 64);
      }
    }
  }
}

}  // namespace braid::analysis
