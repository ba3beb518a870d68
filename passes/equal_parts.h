// Divides a dimension so that each part needs bounded memory, at the sizes of the running step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/expr.h"

namespace braid::passes {

struct Range {
  ir::Expr start, size;
};

// Parts of a dimension of n elements: part k is [k s, min((k + 1) s, n)). With at most t = max(1, floor(most
// / each)) elements at once, ceil(n / t) parts are needed, and s = ceil(n / ceil(n / t)) makes them equal.
// `count` is the number of parts at the upper bounds; at smaller sizes the last ones are empty.
struct EqualParts {
  ir::Expr all;
  std::int64_t count = 1;
  std::optional<ir::Expr> size;  // s, absent if there is one part
  std::optional<ir::Expr> most;  // what a part needs: max(most, each)

  Range range(std::int64_t k) const {
    if (!size) return {0, all};
    return {*size * k, min(*size, max(all - *size * k, 0))};
  }
};

inline std::int64_t count_of_parts(ir::Expr all, ir::Expr each, std::int64_t most) {
  const auto largest = [](ir::Expr e) { return std::max<std::int64_t>(bounds(e).max, 1); };
  const std::int64_t at_once = std::max<std::int64_t>(most / largest(each), 1);
  return (largest(all) - 1) / at_once + 1;
}

// `each` is positive. Parts need more than `most` where they would be more than `most_parts`.
inline EqualParts equal_parts(ir::Expr all, ir::Expr each, std::int64_t most, std::int64_t most_parts) {
  most = std::max<std::int64_t>(most, 1);
  while (count_of_parts(all, each, most) > most_parts) most *= 2;
  EqualParts parts{all, count_of_parts(all, each, most), {}, {}};
  if (parts.count == 1) return parts;
  const ir::Expr at_once = max(floor_div(most, each), 1);
  parts.size = ceil_div(all, max(ceil_div(all, at_once), 1));
  parts.most = max(most, each);
  return parts;
}

}  // namespace braid::passes
