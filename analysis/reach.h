// Which collectives are complete before which others can begin: reachability among collectives only.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/problem.h"

namespace braid::analysis {

class Reach {
 public:
  explicit Reach(const Problem& problem);
  // The start of `b` depends, directly or not, on the start of `a`.
  bool completes_before(int a, int b) const {
    const std::size_t bit = static_cast<std::size_t>(a);
    return (rows_[static_cast<std::size_t>(b) * words_ + bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> rows_;  // per collective: the set of those in front of it
};

}  // namespace braid::analysis
