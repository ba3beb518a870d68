// The extern kernel `cumulative` on the host: sums or products of all elements up to each one along the
// middle dimension. Operand and result: [outer, n, inner]. Attributes: `product`; `exclusive`, which leaves
// out the element itself; `reverse`, which begins at the end. Elements are combined in order.
#pragma once

#include <algorithm>
#include <type_traits>

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"
#include "runtime/team.h"

namespace braid::rt {

// Integers wrap, which only unsigned arithmetic may.
template <bool product, class T>
T cumulative_step(T carry, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return product ? carry * x : carry + x;
  } else {
    const auto a = static_cast<uint64_t>(carry), b = static_cast<uint64_t>(x);
    return static_cast<T>(product ? a * b : a + b);
  }
}

// Up to kCumulativeLanes neighbouring results are carried at once.
inline constexpr int64_t kCumulativeLanes = 1024;

struct CumulativeLanes {
  int64_t n, lanes;
  int64_t step, between;  // distances along the axis, and from lane to lane
  bool exclusive;
};

template <bool product, class T>
void cumulative_lanes(const T* x, T* y, const CumulativeLanes& s) {
  T carry[kCumulativeLanes];
  std::fill_n(carry, s.lanes, product ? T(1) : T(0));
  const auto along = [&](auto between) {
    for (int64_t i = 0; i < s.n; ++i, x += s.step, y += s.step) {
      for (int64_t lane = 0; lane < s.lanes; ++lane) {
        const T before = carry[lane];
        carry[lane] = cumulative_step<product>(before, x[lane * between]);
        y[lane * between] = s.exclusive ? before : carry[lane];
      }
    }
  };
  if (s.between == 1) {
    along(std::integral_constant<int64_t, 1>());
  } else {
    along(s.between);
  }
}

template <bool product, class T>
const char* cumulative_all(const BraidExternCall* call) {
  const int64_t *sizes = call->reads[0].sizes, outer = sizes[0], n = sizes[1], inner = sizes[2];
  const bool reverse = braid_find_attribute(call, "reverse", BRAID_INTEGER)->integer != 0;
  CumulativeLanes s = {n, 0, inner, 1, braid_find_attribute(call, "exclusive", BRAID_INTEGER)->integer != 0};
  if (outer * n * inner == 0) return nullptr;
  // Rows that follow the axis are carried a few at once, so that an addition need not wait for the last one.
  // Rows a power of two apart share their place in the caches, so they are not more.
  constexpr int64_t kRows = 4;
  const bool rows = inner == 1;
  const int64_t share = std::max<int64_t>((inner + team_threads() - 1) / team_threads(), 64);
  const int64_t width = rows ? kRows : std::min({inner, share, kCumulativeLanes});
  const int64_t lanes = rows ? outer : inner, parts = (lanes + width - 1) / width;
  if (rows) s.between = n;
  const int64_t tasks = rows ? parts : outer * parts, first = reverse ? (n - 1) * inner : 0;
  if (reverse) s.step = -inner;
  parallel_for(tasks, outer * n * inner > 16384, [&](int64_t begin, int64_t end) {
    CumulativeLanes own = s;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t lane = task % parts * width, at = task / parts * n * inner + lane * s.between + first;
      own.lanes = std::min(width, lanes - lane);
      cumulative_lanes<product>(static_cast<const T*>(call->reads[0].data) + at,
                                static_cast<T*>(call->writes[0].data) + at, own);
    }
  });
  return nullptr;
}

template <class T>
const char* cumulative_of(const BraidExternCall* call) {
  const bool product = braid_find_attribute(call, "product", BRAID_INTEGER)->integer != 0;
  return product ? cumulative_all<true, T>(call) : cumulative_all<false, T>(call);
}

inline const char* cumulative(const BraidExternCall* call) {
  return for_element_type(call->reads[0].dtype, "cumulative: element type not supported",
                          [&](auto type) { return cumulative_of<typename decltype(type)::type>(call); });
}

}  // namespace braid::rt
