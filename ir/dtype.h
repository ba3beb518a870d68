// Element types. Names follow the text format: f32, bf16, i64, bool.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::ir {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

inline constexpr int kDTypeCount = 13;

// Bytes of one element; bool takes one byte.
std::int64_t size_of(DType dtype);
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_string(std::string_view name);

bool is_float(DType dtype);
bool is_signed_integer(DType dtype);
bool is_integer(DType dtype);  // signed or unsigned, not bool

}  // namespace braid::ir
