#include "ir/dtype.h"

#include <array>

namespace braid::ir {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Row, kDTypeCount> kRows = {{{DType::f32, "f32", 4},
                                                 {DType::f64, "f64", 8},
                                                 {DType::f16, "f16", 2},
                                                 {DType::bf16, "bf16", 2},
                                                 {DType::i8, "i8", 1},
                                                 {DType::i16, "i16", 2},
                                                 {DType::i32, "i32", 4},
                                                 {DType::i64, "i64", 8},
                                                 {DType::u8, "u8", 1},
                                                 {DType::u16, "u16", 2},
                                                 {DType::u32, "u32", 4},
                                                 {DType::u64, "u64", 8},
                                                 {DType::boolean, "bool", 1}}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t size_of(DType dtype) { return row(dtype).bytes; }

std::string_view to_string(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

bool is_signed_integer(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::boolean; }

}  // namespace braid::ir
