// Parts that our own kernels of convolutions share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "runtime/gemm.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

inline int64_t in_blocks(int64_t count, int64_t block) { return (count + block - 1) / block; }

// The threads that are worth their cost for so many multiplications.
inline int useful_threads(double work, int threads) {
  constexpr double kParallelWork = 2e5;  // below which a second thread costs more than it saves
  return work < kParallelWork ? 1 : threads;
}

// The same operands, as those of a product.
inline GemmArgs product_args(const WindowArgs& args) {
  GemmArgs out;
  out.a = args.a;
  out.c = args.out;
  std::copy(std::begin(args.vectors), std::end(args.vectors), std::begin(out.vectors));
  return out;
}

// The distance of adjacent elements, if all elements of some dimensions are equally far apart.
class EqualDistance {
 public:
  // Adds a dimension, the innermost one first. Returns false if elements are not equally far apart.
  bool add(int64_t count, int64_t stride) {
    if (count == 1) return true;
    if (!distance_) distance_ = stride;
    const bool fits = stride == *distance_ * elements_;
    elements_ *= count;
    return fits;
  }
  int64_t get() const { return distance_.value_or(0); }

 private:
  std::optional<int64_t> distance_;
  int64_t elements_ = 1;
};

}  // namespace braid::rt
