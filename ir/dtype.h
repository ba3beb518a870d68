// Element types. Names follow the text format: f32, bf16, i64, bool.
//
// Types below one byte and the 8-bit floats are storage types: programs move their elements and reinterpret
// them as bytes (bitcast), but never compute with them. An element takes one byte in memory. A type with
// fewer bits uses the low bits; integers are extended to the byte. The frontend writes a conversion out as
// arithmetic on bytes (frontend/ops/small_types.h), so that every target computes the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::ir {

enum class DTypeKind : std::uint8_t {
  floating,
  signed_integer,
  unsigned_integer,
  boolean,
  signed_storage,  // represented as the byte's signed value
  storage          // as its unsigned value
};

// TYPE(enumerator, name in the text format, bits of a value, bytes in memory, kind)
// clang-format off
#define BRAID_DTYPES(TYPE)                            \
  TYPE(f32,        "f32",        32, 4, floating)         \
  TYPE(f64,        "f64",        64, 8, floating)         \
  TYPE(f16,        "f16",        16, 2, floating)         \
  TYPE(bf16,       "bf16",       16, 2, floating)         \
  TYPE(i8,         "i8",         8,  1, signed_integer)   \
  TYPE(i16,        "i16",        16, 2, signed_integer)   \
  TYPE(i32,        "i32",        32, 4, signed_integer)   \
  TYPE(i64,        "i64",        64, 8, signed_integer)   \
  TYPE(u8,         "u8",         8,  1, unsigned_integer) \
  TYPE(u16,        "u16",        16, 2, unsigned_integer) \
  TYPE(u32,        "u32",        32, 4, unsigned_integer) \
  TYPE(u64,        "u64",        64, 8, unsigned_integer) \
  TYPE(boolean,    "bool",       1,  1, boolean)          \
  TYPE(i4,         "i4",         4,  1, signed_storage)   \
  TYPE(u4,         "u4",         4,  1, storage)          \
  TYPE(i2,         "i2",         2,  1, signed_storage)   \
  TYPE(u2,         "u2",         2,  1, storage)          \
  TYPE(f8e4m3fn,   "f8e4m3fn",   8,  1, storage)          \
  TYPE(f8e4m3fnuz, "f8e4m3fnuz", 8,  1, storage)          \
  TYPE(f8e5m2,     "f8e5m2",     8,  1, storage)          \
  TYPE(f8e5m2fnuz, "f8e5m2fnuz", 8,  1, storage)          \
  TYPE(f8e8m0,     "f8e8m0",     8,  1, storage)          \
  TYPE(f4e2m1,     "f4e2m1",     4,  1, storage)
// clang-format on

enum class DType : std::uint8_t {
#define BRAID_DTYPE(code, ...) code,
  BRAID_DTYPES(BRAID_DTYPE)
#undef BRAID_DTYPE
};

inline constexpr int kDTypeCount = 0
#define BRAID_ONE(...) +1
    BRAID_DTYPES(BRAID_ONE)
#undef BRAID_ONE
    ;

// Bytes of one element; bool and types below one byte take one byte.
std::int64_t size_of(DType dtype);
int bits_of(DType dtype);
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_string(std::string_view name);

bool is_float(DType dtype);
bool is_signed_integer(DType dtype);
bool is_integer(DType dtype);  // signed or unsigned, not bool
bool is_storage(DType dtype);
// The integer type with which an element of a storage type is represented, i8 or u8; other types as they are.
DType byte_type(DType dtype);

}  // namespace braid::ir
