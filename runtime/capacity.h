// The memory of tensors that have capacities (BraidTensorInfo::capacities), for callers that hold such
// tensors densely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/dtype.h"
#include "runtime/program_abi.h"

namespace braid::rt {

// Sizes of a tensor's memory: the capacities, or the shape of a tensor that has none.
inline std::span<const int64_t> room_of(std::span<const int64_t> capacities, std::span<const int64_t> shape) {
  return capacities.empty() ? shape : capacities;
}
inline std::span<const int64_t> capacities_of(const BraidTensorInfo& tensor) {
  if (tensor.capacities == nullptr) return {};
  return {tensor.capacities, static_cast<size_t>(tensor.rank)};
}

// Row-major strides, in elements.
inline std::vector<int64_t> strides_of(std::span<const int64_t> room) {
  std::vector<int64_t> strides(room.size());
  int64_t stride = 1;
  for (size_t k = room.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= room[k];
  }
  return strides;
}

// Calls copy(offset in the memory, offset in a dense tensor, bytes) for each piece of a tensor that is
// contiguous in both.
template <class Copy>
void for_each_piece(std::span<const int64_t> room, std::span<const int64_t> shape, size_t item,
                    const Copy& copy) {
  // The innermost dimensions that fill their room, and the one around them, are one piece.
  size_t outer = shape.size();
  int64_t piece = 1;
  while (outer > 0) {
    --outer;
    piece *= shape[outer];
    if (shape[outer] != room[outer]) break;
  }
  int64_t count = piece == 0 ? 0 : 1;
  for (size_t k = 0; k < outer; ++k) count *= shape[k];
  const std::vector<int64_t> strides = strides_of(room);
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

inline void to_memory(std::span<const int64_t> room, std::span<const int64_t> shape, size_t item,
                      const void* dense, void* memory) {
  for_each_piece(room, shape, item, [&](size_t there, size_t here, size_t bytes) {
    std::memcpy(static_cast<std::byte*>(memory) + there, static_cast<const std::byte*>(dense) + here, bytes);
  });
}
inline void from_memory(std::span<const int64_t> room, std::span<const int64_t> shape, size_t item,
                        const void* memory, void* dense) {
  for_each_piece(room, shape, item, [&](size_t there, size_t here, size_t bytes) {
    std::memcpy(static_cast<std::byte*>(dense) + here, static_cast<const std::byte*>(memory) + there, bytes);
  });
}

// The same for a tensor of a program.
inline size_t memory_bytes(const BraidTensorInfo& tensor, std::span<const int64_t> shape) {
  size_t bytes = size_of(static_cast<DType>(tensor.dtype));
  for (int64_t size : room_of(capacities_of(tensor), shape)) bytes *= static_cast<size_t>(size);
  return bytes;
}
inline void to_memory(const BraidTensorInfo& tensor, std::span<const int64_t> shape, const void* dense,
                      void* memory) {
  to_memory(room_of(capacities_of(tensor), shape), shape, size_of(static_cast<DType>(tensor.dtype)), dense,
            memory);
}
inline void from_memory(const BraidTensorInfo& tensor, std::span<const int64_t> shape, const void* memory,
                        void* dense) {
  from_memory(room_of(capacities_of(tensor), shape), shape, size_of(static_cast<DType>(tensor.dtype)), memory,
              dense);
}

}  // namespace braid::rt
