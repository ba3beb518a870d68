// The difference between two tensors: what `test` and `verify` print and base their verdict on.
#pragma once

#include <string>

#include "ir/tensor.h"

namespace braid::harness {

struct Tolerance {
  double relative = 1e-3;  // ONNX's backend tests
  double absolute = 1e-7;
  // Allows for rounding when large terms cancel: a difference this small relative to the tensor's largest
  // element counts as equal.
  double of_largest = 1e-6;
};

struct Difference {
  bool same_type = true;        // dtype and sizes agree
  std::string types;            // if they do not: both
  std::int64_t mismatches = 0;  // elements with |a - b| beyond every tolerance; NaN equals NaN
  std::int64_t elements = 0;
  double max_absolute = 0;   // infinite if one of the two is NaN somewhere
  double max_relative = 0;   // max |a - b| / max |b|: relative to the tensor's own scale
  std::int64_t max_ulp = 0;  // f32 only
  std::int64_t worst = -1;   // flat index of the worst mismatch; of integers, the first

  bool ok() const { return same_type && mismatches == 0; }
};

// Half-precision results have two or three digits, so the tolerance for them is at least 1e-2 and 1e-3.
Tolerance tolerance_for(Tolerance tolerance, ir::DType dtype);

// "[0, 3]: 1.5 instead of 1.25": the worst element with its values; empty if there is none.
std::string worst_text(const ir::Tensor& a, const ir::Tensor& b, const Difference& difference);

// `b` is the reference. Integers and bool must be equal.
Difference compare(const ir::Tensor& a, const ir::Tensor& b, const Tolerance& tolerance);
std::string to_string(const Difference& difference);

}  // namespace braid::harness
