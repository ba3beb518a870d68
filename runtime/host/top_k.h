// The extern kernel `top_k` on the host: the k largest or smallest elements of each row, in order, and their
// positions. Operands: x [rows, n]; results: values [rows, k], positions (int64) [rows, k]. Attribute
// `largest`.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"
#include "runtime/team.h"

namespace braid::rt {

// Returns whether element a at position i comes before b at j. NaN is larger than any number; equal elements
// keep their order. Types other than floats have no element that differs from itself.
template <class T>
bool top_k_before(T a, int64_t i, T b, int64_t j, bool largest) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) {
    if (a_nan != b_nan) return a_nan == largest;
    return i < j;
  }
  if (a == b) return i < j;
  return largest ? a > b : a < b;
}

// Returns whether an element may come before `last`: an equal one, which is later, does not.
template <class T>
bool top_k_may_be_before(T a, T last, bool largest) {
  return largest ? !(a <= last) : !(a >= last);
}

inline constexpr int64_t kTopKBlock = 16;

// Returns whether an element of a block may. Vectors compare the block at once.
template <class T>
bool top_k_any_before(const T* x, T last, bool largest) {
  int any = 0;
  if (largest) {
#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < kTopKBlock; ++i) any |= !(x[i] <= last);
  } else {
#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < kTopKBlock; ++i) any |= !(x[i] >= last);
  }
  return any != 0;
}

// Selects with a heap whose root is the element that comes last, in the memory of the results, and sorts it.
template <class T>
void top_k_row(const T* x, int64_t n, int64_t k, bool largest, T* values, int64_t* positions) {
  const auto before = [&](int64_t a, int64_t b) {
    return top_k_before(values[a], positions[a], values[b], positions[b], largest);
  };
  const auto sift_down = [&](int64_t size, T value, int64_t position) {
    int64_t hole = 0;
    for (;;) {
      int64_t child = 2 * hole + 1;
      if (child >= size) break;
      if (child + 1 < size && before(child, child + 1)) ++child;
      if (!top_k_before(value, position, values[child], positions[child], largest)) break;
      values[hole] = values[child];
      positions[hole] = positions[child];
      hole = child;
    }
    values[hole] = value;
    positions[hole] = position;
  };
  for (int64_t i = 0; i < k; ++i) {  // sift up
    int64_t hole = i;
    while (hole > 0) {
      const int64_t parent = (hole - 1) / 2;
      if (!top_k_before(values[parent], positions[parent], x[i], i, largest)) break;
      values[hole] = values[parent];
      positions[hole] = positions[parent];
      hole = parent;
    }
    values[hole] = x[i];
    positions[hole] = i;
  }
  for (int64_t i = k; i < n;) {
    const int64_t end = n - i < kTopKBlock ? n : i + kTopKBlock;
    if (end - i < kTopKBlock || top_k_any_before(x + i, values[0], largest)) {
      for (int64_t j = i; j < end; ++j) {
        if (top_k_may_be_before(x[j], values[0], largest) &&
            top_k_before(x[j], j, values[0], positions[0], largest))
          sift_down(k, x[j], j);
      }
    }
    i = end;
  }
  for (int64_t size = k - 1; size > 0; --size) {
    const T value = values[size];
    const int64_t position = positions[size];
    values[size] = values[0];
    positions[size] = positions[0];
    sift_down(size, value, position);
  }
}

template <class T>
const char* top_k_rows(const BraidExternCall* call) {
  const BraidTensorView &x = call->reads[0], &values = call->writes[0], &positions = call->writes[1];
  const int64_t rows = x.sizes[0], n = x.sizes[1], k = values.sizes[1];
  const bool largest = braid_find_attribute(call, "largest", BRAID_INTEGER)->integer != 0;
  if (k == 0) return nullptr;
  parallel_for(rows, rows * n > 16384, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      top_k_row(static_cast<const T*>(x.data) + row * n, n, k, largest,
                static_cast<T*>(values.data) + row * k, static_cast<int64_t*>(positions.data) + row * k);
    }
  });
  return nullptr;
}

inline const char* top_k(const BraidExternCall* call) {
  return for_element_type(call->reads[0].dtype, "top_k: element type not supported",
                          [&](auto type) { return top_k_rows<typename decltype(type)::type>(call); });
}

}  // namespace braid::rt
