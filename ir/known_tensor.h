// Tensors that are known while compiling: their bytes, or, of small integers that decide sizes, expressions.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/dtype.h"
#include "ir/expr.h"
#include "ir/graph.h"

namespace braid::ir {

struct KnownTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  ConstantData data;  // row-major, host byte order; types below one byte take one byte per element

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t size : sizes) n *= size;
    return n;
  }
};

// Integers that determine shapes, propagated as expressions over dimensions: Shape -> Gather -> Concat ->
// Reshape needs no tensor.
struct KnownElements {
  std::vector<std::int64_t> sizes;
  std::vector<Expr> values;  // row-major
};

}  // namespace braid::ir
