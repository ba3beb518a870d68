// The extern kernel `unique` on the host: the distinct slices of a tensor along its middle dimension.
// Operand: x [outer, n, inner]. Results: values [outer * n * inner], of which the first elements are
// [outer, found, inner]; int64: first and counts [n], of which the first `found` are the position of the
// first slice of each value and the number of its slices; inverse [n], the value of each slice; count.
// Attribute `sorted`: values ascend, by their first element that differs; otherwise they come as in x. NaN is
// above all numbers and equals itself.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"

namespace braid::rt {

// -1, 0 or 1.
template <class T>
int unique_order(T a, T b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return (a_nan ? 1 : 0) - (b_nan ? 1 : 0);
  return a < b ? -1 : b < a ? 1 : 0;
}

template <class T>
const char* unique_of(const BraidExternCall* call) {
  const BraidTensorView& view = call->reads[0];
  const auto* x = static_cast<const T*>(view.data);
  const int64_t outer = view.sizes[0], n = view.sizes[1], inner = view.sizes[2];
  const bool sorted = braid_find_attribute(call, "sorted", BRAID_INTEGER)->integer != 0;
  auto* values = static_cast<T*>(call->writes[0].data);
  const auto numbers = [&](size_t k) { return static_cast<int64_t*>(call->writes[k].data); };
  int64_t *const first = numbers(1), *const counts = numbers(2), *const inverse = numbers(3);
  const std::unique_ptr<int64_t[]> order(new (std::nothrow) int64_t[static_cast<size_t>(n)]);
  if (!order) return "out of memory";
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        if (const int c = unique_order(x[(o * n + a) * inner + i], x[(o * n + b) * inner + i]); c != 0)
          return c;
      }
    }
    return 0;
  };
  for (int64_t k = 0; k < n; ++k) order[k] = k;
  std::sort(order.get(), order.get() + n, [&](int64_t a, int64_t b) {
    const int c = compare(a, b);
    return c < 0 || (c == 0 && a < b);
  });
  // Slices take the number of their group, then, unless sorted, groups are numbered anew.
  int64_t found = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (k == 0 || compare(order[k - 1], order[k]) != 0) first[found++] = order[k];
    inverse[order[k]] = found - 1;
  }
  if (!sorted) {
    std::sort(first, first + found);
    for (int64_t k = 0; k < found; ++k) order[inverse[first[k]]] = k;
    for (int64_t k = 0; k < n; ++k) inverse[k] = order[inverse[k]];
  }
  std::fill_n(counts, found, 0);
  for (int64_t k = 0; k < n; ++k) ++counts[inverse[k]];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < found; ++k)
      std::copy_n(x + (o * n + first[k]) * inner, inner, values + (o * found + k) * inner);
  }
  *numbers(4) = found;
  return nullptr;
}

inline const char* unique(const BraidExternCall* call) {
  return for_element_type(call->reads[0].dtype, "unique: unsupported type",
                          [&]<class T>(ElementType<T>) { return unique_of<T>(call); });
}

}  // namespace braid::rt
