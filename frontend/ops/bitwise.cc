// Operators on the bits of numbers.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower(OpContext& c) {
  c.set_output(0, binary(c.lowering(), code, c.input(0), c.input(1)));
}

void lower_not(OpContext& c) { c.set_output(0, unary(c.lowering(), OpCode::bit_not, c.input(0))); }

void lower_shift(OpContext& c) {
  const std::string direction = c.string_attribute("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'direction' is '{}', expected LEFT or RIGHT", direction));
  c.set_output(0, binary(c.lowering(), direction == "LEFT" ? OpCode::shift_left : OpCode::shift_right,
                         c.input(0), c.input(1)));
}

void lower_bit_cast(OpContext& c) {
  const DType from = c.dtype(0), to = c.dtype_of(c.int_attribute("to"));
  if (size_of(from) != size_of(to)) {
    c.fail(errors::kTypeMismatch,
           fmt::format("attribute 'to' is {}, whose elements have {} bytes; those of {} have {}",
                       to_string(to), size_of(to), to_string(from), size_of(from)));
  }
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.bitcast(v[0], to);
  }));
}

constexpr TypeSet kIntegers = kSigned | kUnsigned;

}  // namespace

std::span<const OpSpec> bitwise_ops() {
  static const OpSpec ops[] = {
      elementwise("BitCast", 26, kAllTypes, lower_bit_cast, 0, rule::kBits, kNoSizes),
      elementwise("BitShift", 11, kIntegers, lower_shift, 1, rule::kElementwise, kNoSizes),
      elementwise("BitwiseAnd", 18, kIntegers, lower<OpCode::bit_and>, 1, rule::kElementwise, kNoSizes),
      elementwise("BitwiseNot", 18, kIntegers, lower_not, 1, rule::kElementwise, kNoSizes),
      elementwise("BitwiseOr", 18, kIntegers, lower<OpCode::bit_or>, 1, rule::kElementwise, kNoSizes),
      elementwise("BitwiseXor", 18, kIntegers, lower<OpCode::bit_xor>, 1, rule::kElementwise, kNoSizes),
  };
  return ops;
}

}  // namespace braid::frontend
