#include "ir/dtype.h"

#include <array>

namespace braid::ir {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
  std::int64_t bytes;
  DTypeKind kind;
};

constexpr std::array<Row, kDTypeCount> kRows = {{
#define BRAID_ROW(code, name, bits, bytes, kind) {DType::code, name, bits, bytes, DTypeKind::kind},
    BRAID_DTYPES(BRAID_ROW)
#undef BRAID_ROW
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t size_of(DType dtype) { return row(dtype).bytes; }

int bits_of(DType dtype) { return row(dtype).bits; }

std::string_view to_string(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) { return row(dtype).kind == DTypeKind::floating; }

bool is_signed_integer(DType dtype) { return row(dtype).kind == DTypeKind::signed_integer; }

bool is_integer(DType dtype) {
  return row(dtype).kind == DTypeKind::signed_integer || row(dtype).kind == DTypeKind::unsigned_integer;
}

bool is_storage(DType dtype) {
  return row(dtype).kind == DTypeKind::storage || row(dtype).kind == DTypeKind::signed_storage;
}

DType byte_type(DType dtype) {
  if (!is_storage(dtype)) return dtype;
  return row(dtype).kind == DTypeKind::signed_storage ? DType::i8 : DType::u8;
}

}  // namespace braid::ir
