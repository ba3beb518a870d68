// The runtime's element types. The runtime does not depend on the compiler; generated code maps ONNX element
// types to these by name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::rt {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, boolean };
inline constexpr int kDTypeCount = 13;

// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
  }
  return 0;
}

constexpr const char* to_string(DType dtype) {
  constexpr const char* kNames[kDTypeCount] = {"f32", "f64", "f16", "bf16", "i8",  "u8",  "i16",
                                               "u16", "i32", "u32", "i64",  "u64", "bool"};
  return static_cast<int>(dtype) < kDTypeCount ? kNames[static_cast<int>(dtype)] : "?";
}

}  // namespace braid::rt
