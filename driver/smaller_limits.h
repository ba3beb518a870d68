// Which limits of memory a search is given where the programs of its plans take more than it counts, such as buffers of collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

// What became of the plans that a search found within a limit. Bytes of one rank.
struct LimitOutcome {
  bool found = false;        // some plan
  bool proved = false;       // the cheapest one is the cheapest of all within the limit
  bool fits = false;         // a program of one does, or was not compiled because another one is shorter
  std::int64_t counted = 0;  // by the search, of the cheapest one; 0: it was not counted
  std::int64_t missing = 0;  // the least that a program took more than what it may; 0: none was too large
  std::int64_t uncounted =
      0;  // the least that one that was too large took beside what the search counts; 0: none was
  std::int64_t reached = 0;  // if no plan was found: what a plan needs; 0: none is known
};

// The cheapest plan within a limit is that of all limits down to what it is counted, and what its program takes beside may be more or
// less than that of others. So all limits of which the plan is not known are as good.
class SmallerLimits {
 public:
  // `limit`: what programs may take, at which the first search was.
  explicit SmallerLimits(std::int64_t limit) : limit_(limit), unknown_{{1, limit}} {}

  // The next limit to search within, given what became of the last one; nullopt: there is nothing more to find.
  std::optional<std::int64_t> next(const LimitOutcome& last);

 private:
  struct Range {
    std::int64_t from, to;  // both included
    std::int64_t size() const { return to - from + 1; }
    std::int64_t middle() const { return from + (size() - 1) / 2; }
    bool has(std::int64_t limit) const { return from <= limit && limit <= to; }
  };
  void forget(std::int64_t from, std::int64_t to);

  std::int64_t limit_;
  std::int64_t wanted_ = 0;  // before all others, if it is not known
  bool first_ = true;
  bool largest_next_ = false;
  std::vector<Range> unknown_;  // from small to large
};

}  // namespace braid
