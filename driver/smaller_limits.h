// Chooses smaller memory limits for the search if the programs of its plans take more bytes than it counts,
// e.g. for buffers of collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

// The outcome of a search within a limit and of the programs of its plans. Bytes are those of one rank.
struct LimitOutcome {
  bool found = false;        // some plan was found
  bool proved = false;       // the cheapest plan found is proved to be the cheapest within the limit
  bool fits = false;         // a program fits, or was not compiled because another one is shorter
  std::int64_t counted = 0;  // bytes that the search counts for the cheapest plan; 0: not counted
  std::int64_t missing = 0;  // the least excess of a program over the memory limit; 0: none was too large
  // The least difference, over programs that were too large, between a program's bytes and those that the
  // search counted; 0: none was too large.
  std::int64_t uncounted = 0;
  std::int64_t reached = 0;  // if no plan was found: bytes that a plan needs; 0: none is known
};

// The cheapest plan within a limit is also the cheapest within every smaller limit down to the bytes that the
// search counts for it. The bytes that a program takes beyond that count vary between plans. So every limit
// whose plan is still unknown is equally promising.
class SmallerLimits {
 public:
  // `limit`: the bytes that programs may take; the first search was within this limit.
  explicit SmallerLimits(std::int64_t limit) : limit_(limit), unknown_{{1, limit}} {}

  // Returns the next limit to search within, given the outcome of the last one; nullopt: nothing is left to
  // find.
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
  std::int64_t wanted_ = 0;  // the next limit, if its plan is unknown
  bool first_ = true;
  bool largest_next_ = false;
  std::vector<Range> unknown_;  // from small to large
};

}  // namespace braid
