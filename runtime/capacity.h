// The memory of tensors that have capacities (BraidTensorInfo::capacities), for callers that hold such tensors dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/dtype.h"
#include "runtime/program_abi.h"

namespace braid::rt {

// Strides, in elements, of a tensor's memory: those of its capacities, or without any of its shape.
inline std::vector<int64_t> memory_strides(const BraidTensorInfo& tensor, std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= tensor.capacities != nullptr ? tensor.capacities[k] : shape[k];
  }
  return strides;
}

// Bytes of the memory of a tensor with this shape: all of its capacities, if it has any.
inline size_t memory_bytes(const BraidTensorInfo& tensor, std::span<const int64_t> shape) {
  size_t bytes = size_of(static_cast<DType>(tensor.dtype));
  for (size_t k = 0; k < shape.size(); ++k)
    bytes *= static_cast<size_t>(tensor.capacities != nullptr ? tensor.capacities[k] : shape[k]);
  return bytes;
}

// Calls copy(offset in the memory, offset in a dense tensor, bytes) for each piece that lies together in both.
template <class Copy>
void for_each_piece(const BraidTensorInfo& tensor, std::span<const int64_t> shape, const Copy& copy) {
  const std::vector<int64_t> strides = memory_strides(tensor, shape);
  // The innermost dimensions that fill their capacities, and the one around them, are one piece.
  size_t outer = shape.size();
  int64_t piece = 1;
  while (outer > 0) {
    piece *= shape[--outer];
    if (outer > 0 && tensor.capacities != nullptr && shape[outer] != tensor.capacities[outer]) break;
  }
  int64_t count = piece == 0 ? 0 : 1;
  for (size_t k = 0; k < outer; ++k) count *= shape[k];
  const size_t item = size_of(static_cast<DType>(tensor.dtype));
  std::vector<int64_t> at(outer, 0);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (size_t k = 0; k < outer; ++k) offset += at[k] * strides[k];
    copy(static_cast<size_t>(offset) * item, static_cast<size_t>(n * piece) * item,
         static_cast<size_t>(piece) * item);
    for (size_t k = outer; k-- > 0;) {
      if (++at[k] < shape[k]) break;
      at[k] = 0;
    }
  }
}

inline void to_memory(const BraidTensorInfo& tensor, std::span<const int64_t> shape, const void* dense, void* memory) {
  for_each_piece(tensor, shape, [&](size_t there, size_t here, size_t bytes) {
    std::memcpy(static_cast<std::byte*>(memory) + there, static_cast<const std::byte*>(dense) + here, bytes);
  });
}

inline void from_memory(const BraidTensorInfo& tensor, std::span<const int64_t> shape, const void* memory,
                        void* dense) {
  for_each_piece(tensor, shape, [&](size_t there, size_t here, size_t bytes) {
    std::memcpy(static_cast<std::byte*>(dense) + here, static_cast<const std::byte*>(memory) + there, bytes);
  });
}

}  // namespace braid::rt
