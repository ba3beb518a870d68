// A dense row-major tensor by value: the interpreter's inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ir/dtype.h"
#include "ir/error.h"

namespace braid::ir {

struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::byte> bytes;

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t s : sizes) n *= s;
    return n;
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;

  // The elements as T, which must have the size of the element type.
  template <class T>
  std::vector<T> values() const {
    internal_check(static_cast<std::int64_t>(sizeof(T)) == size_of(dtype), "elements of {} read as {} bytes",
                   to_string(dtype), sizeof(T));
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

// Zeros.
inline Tensor make_tensor(DType dtype, std::vector<std::int64_t> sizes) {
  Tensor t{dtype, std::move(sizes), {}};
  t.bytes.resize(static_cast<std::size_t>(t.numel() * size_of(dtype)));
  return t;
}

template <class T>
Tensor make_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<T>& values) {
  Tensor t = make_tensor(dtype, std::move(sizes));
  internal_check(values.size() * sizeof(T) == t.bytes.size(), "{} values for a tensor of {} bytes",
                 values.size(), t.bytes.size());
  if (!t.bytes.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

}  // namespace braid::ir
