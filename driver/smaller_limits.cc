#include "driver/smaller_limits.h"

#include <algorithm>
#include <utility>

namespace braid {

std::optional<std::int64_t> SmallerLimits::next(const LimitOutcome& last) {
  // The first guess leaves room for the bytes that the search does not count.
  if (std::exchange(first_, false)) wanted_ = limit_ - (last.uncounted > 0 ? last.uncounted : last.missing);
  if (!last.found) {
    forget(1, std::max(limit_, last.reached - 1));
    wanted_ = last.reached;
  } else if (last.fits) {
    forget(1, limit_);  // the plans of smaller ones are not shorter
  } else {
    forget(last.proved && last.counted > 0 ? last.counted : limit_, limit_);
  }
  if (unknown_.empty()) return std::nullopt;
  // Alternates between the middle of the first range, which has the smallest plans, and that of the largest
  // range.
  const Range& range = std::exchange(largest_next_, !largest_next_)
                           ? *std::ranges::max_element(unknown_, {}, &Range::size)
                           : unknown_.front();
  const bool is_unknown = std::ranges::any_of(unknown_, [&](const Range& own) { return own.has(wanted_); });
  limit_ = is_unknown ? wanted_ : range.middle();
  return limit_;
}

void SmallerLimits::forget(std::int64_t from, std::int64_t to) {
  std::vector<Range> left;
  for (const Range& own : unknown_) {
    for (const Range& part :
         {Range{own.from, std::min(own.to, from - 1)}, Range{std::max(own.from, to + 1), own.to}})
      if (part.size() > 0) left.push_back(part);
  }
  unknown_ = std::move(left);
}

}  // namespace braid
