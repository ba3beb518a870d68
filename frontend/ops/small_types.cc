#include "frontend/ops/small_types.h"

#include <array>
#include <cmath>

namespace braid::frontend {
namespace {

// A float of a sign, an exponent and a mantissa, in at most 8 bits.
struct Minifloat {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  std::int64_t largest;   // code of the largest finite number
  std::int64_t overflow;  // code of larger numbers, if they are not saturated
  std::int64_t nan;       // -1: there is none
  bool one_zero;          // no negative zero, whose code is NaN
};
constexpr std::array<Minifloat, 5> kMinifloats = {{
    {DType::f8e4m3fn, 4, 3, 7, 0x7e, 0x7f, 0x7f, false},
    {DType::f8e4m3fnuz, 4, 3, 8, 0x7f, 0x80, 0x80, true},
    {DType::f8e5m2, 5, 2, 15, 0x7b, 0x7c, 0x7e, false},
    {DType::f8e5m2fnuz, 5, 2, 16, 0x7f, 0x80, 0x80, true},
    {DType::f4e2m1, 2, 1, 1, 0x7, 0x7, -1, false},
}};

const Minifloat* minifloat(DType dtype) {
  for (const Minifloat& m : kMinifloats) {
    if (m.dtype == dtype) return &m;
  }
  return nullptr;
}

constexpr int kBias = 127, kMantissa = 23;  // of f32
constexpr std::int64_t kInf = 0x7f800000, kNan = 0x7fc00000, kMagnitude = 0x7fffffff;

// Arithmetic on one unsigned type with literals.
struct Bits {
  BodyBuilder& b;
  DType type = DType::u32;

  ValueId literal(std::int64_t n) const { return b.constant(type, n); }
  ValueId op(OpCode code, ValueId v, std::int64_t n) const { return b.binary(code, v, literal(n)); }
  ValueId left(ValueId v, int n) const { return op(OpCode::shift_left, v, n); }
  ValueId right(ValueId v, int n) const { return op(OpCode::shift_right, v, n); }
  ValueId with(ValueId v, ValueId w) const { return b.binary(OpCode::bit_or, v, w); }
};

// The low bits of a byte, extended to it.
ValueId low_bits(BodyBuilder& b, ValueId byte, DType dtype) {
  const int bits = ir::bits_of(dtype);
  const Bits bytes{b, byte_type(dtype)};
  if (bytes.type == DType::u8) return bytes.op(OpCode::bit_and, byte, (std::int64_t{1} << bits) - 1);
  return bytes.right(bytes.left(byte, 8 - bits), 8 - bits);
}

ValueId decoded(BodyBuilder& b, ValueId byte, const Minifloat& m) {
  const Bits u{b};
  const int bits = 1 + m.exponent_bits + m.mantissa_bits;
  const ValueId code = b.cast(byte, DType::u32);
  const ValueId magnitude = u.op(OpCode::bit_and, code, (std::int64_t{1} << (bits - 1)) - 1);
  const ValueId sign = u.left(u.op(OpCode::bit_and, u.right(code, bits - 1), 1), 31);
  const ValueId normal = u.op(OpCode::add, u.left(magnitude, kMantissa - m.mantissa_bits),
                              std::int64_t{kBias - m.bias} << kMantissa);
  const ValueId tiny =
      b.bitcast(b.binary(OpCode::mul, b.cast(magnitude, DType::f32),
                         b.constant(DType::f32, std::ldexp(1.0, 1 - m.bias - m.mantissa_bits))),
                DType::u32);
  ValueId value = b.where(u.op(OpCode::lt, magnitude, std::int64_t{1} << m.mantissa_bits), tiny, normal);
  if (m.dtype == DType::f8e5m2) {
    value = b.where(u.op(OpCode::eq, magnitude, 0x7c), u.literal(kInf), value);
    value = b.where(u.op(OpCode::gt, magnitude, 0x7c), u.literal(kNan), value);
  } else if (m.nan >= 0 && !m.one_zero) {
    value = b.where(u.op(OpCode::eq, magnitude, m.nan), u.literal(kNan), value);
  }
  value = u.with(value, sign);
  if (m.one_zero) value = b.where(u.op(OpCode::eq, code, m.nan), u.literal(kNan), value);
  return b.bitcast(value, DType::f32);
}

// `number` is f32.
ValueId encoded(BodyBuilder& b, ValueId number, const Minifloat& m, bool saturate) {
  const Bits u{b};
  const int bits = 1 + m.exponent_bits + m.mantissa_bits, drop = kMantissa - m.mantissa_bits;
  const ValueId given = b.bitcast(number, DType::u32);
  const ValueId magnitude = u.op(OpCode::bit_and, given, kMagnitude);
  const ValueId sign = u.left(u.right(given, 31), bits - 1);
  // Half of the last place, less one unit unless the place is odd: to nearest even.
  const ValueId odd = u.op(OpCode::bit_and, u.right(magnitude, drop), 1);
  const ValueId half = u.op(OpCode::add, odd, (std::int64_t{1} << (drop - 1)) - 1);
  const ValueId normal = u.op(OpCode::sub, u.right(b.binary(OpCode::add, magnitude, half), drop),
                              std::int64_t{kBias - m.bias} << m.mantissa_bits);
  // Numbers below the smallest normal one are multiples of the smallest number.
  const ValueId smallest = u.literal(std::int64_t{kBias + 1 - m.bias} << kMantissa);
  const ValueId is_tiny = b.binary(OpCode::lt, magnitude, smallest);
  const ValueId kept = b.bitcast(b.where(is_tiny, magnitude, u.literal(0)), DType::f32);
  const ValueId tiny = b.cast(
      b.unary(OpCode::round, b.binary(OpCode::mul, kept,
                                      b.constant(DType::f32, std::ldexp(1.0, m.bias - 1 + m.mantissa_bits)))),
      DType::u32);
  ValueId code = b.where(is_tiny, tiny, normal);
  code = b.where(u.op(OpCode::gt, code, m.largest), u.literal(saturate ? m.largest : m.overflow), code);
  const ValueId is_nan = u.op(OpCode::gt, magnitude, kInf);
  if (m.nan >= 0) code = b.where(is_nan, u.literal(m.nan), code);
  if (m.one_zero) {
    code = b.where(u.op(OpCode::eq, code, 0), code, u.with(code, sign));
  } else {
    code = u.with(code, sign);
  }
  // ONNX gives no value for NaN in f4e2m1; the converters of its test cases yield the zero of the other sign.
  if (m.nan < 0) code = b.where(is_nan, u.op(OpCode::bit_xor, sign, std::int64_t{1} << (bits - 1)), code);
  return b.cast(code, DType::u8);
}

// f8e8m0 is an exponent of f32; 255 is NaN.
constexpr std::int64_t kPowerNan = 255, kPowerLargest = 254;

ValueId decoded_power(BodyBuilder& b, ValueId byte) {
  const Bits u{b};
  const ValueId code = b.cast(byte, DType::u32);
  constexpr std::int64_t kSmallest = 0x00400000;  // 2^-127 is a denormal f32
  ValueId value = b.where(u.op(OpCode::eq, code, 0), u.literal(kSmallest), u.left(code, kMantissa));
  value = b.where(u.op(OpCode::eq, code, kPowerNan), u.literal(kNan), value);
  return b.bitcast(value, DType::f32);
}

// The sign is ignored: ONNX gives negative numbers no value.
ValueId encoded_power(BodyBuilder& b, ValueId number, const CastOptions& options) {
  const Bits u{b};
  const ValueId magnitude = u.op(OpCode::bit_and, b.bitcast(number, DType::u32), kMagnitude);
  const ValueId exponent = u.right(magnitude, kMantissa);
  const ValueId fraction = u.op(OpCode::bit_and, magnitude, (std::int64_t{1} << kMantissa) - 1);
  ValueId code = exponent;
  if (options.rounding != PowerRounding::down) {
    // Ties go up. The smallest number, 2^-127, is a denormal of half the smallest normal one.
    constexpr std::int64_t kHalf = std::int64_t{1} << (kMantissa - 1);
    const bool up = options.rounding == PowerRounding::up;
    const ValueId above = b.where(u.op(OpCode::gt, exponent, 0), u.op(OpCode::ge, fraction, up ? 1 : kHalf),
                                  u.op(OpCode::ge, fraction, up ? kHalf + 1 : kHalf + kHalf / 2));
    code = b.binary(OpCode::add, code, b.cast(above, DType::u32));
  }
  code = b.where(u.op(OpCode::gt, code, kPowerLargest),
                 u.literal(options.saturate ? kPowerLargest : kPowerNan), code);
  if (!options.saturate) code = b.where(u.op(OpCode::eq, magnitude, 0), u.literal(kPowerNan), code);
  code = b.where(u.op(OpCode::gt, magnitude, kInf), u.literal(kPowerNan), code);
  return b.cast(code, DType::u8);
}

}  // namespace

DType number_type(DType dtype) {
  if (!is_storage(dtype)) return dtype;
  return minifloat(dtype) != nullptr || dtype == DType::f8e8m0 ? DType::f32 : DType::i32;
}

ValueId to_number(BodyBuilder& b, ValueId v) {
  const DType from = b.dtype(v);
  if (!is_storage(from)) return v;
  const ValueId byte = b.bitcast(v, byte_type(from));
  if (const Minifloat* m = minifloat(from)) return decoded(b, byte, *m);
  if (from == DType::f8e8m0) return decoded_power(b, byte);
  return b.cast(low_bits(b, byte, from), DType::i32);
}

ValueId cast_element(BodyBuilder& b, ValueId v, DType to, const CastOptions& options) {
  if (b.dtype(v) == to) return v;
  const ValueId number = to_number(b, v);
  if (!is_storage(to)) return b.cast(number, to);
  if (const Minifloat* m = minifloat(to))
    return b.bitcast(encoded(b, b.cast(number, DType::f32), *m, options.saturate), to);
  if (to == DType::f8e8m0) return b.bitcast(encoded_power(b, b.cast(number, DType::f32), options), to);
  const ValueId integer = is_float(b.dtype(number)) ? b.cast(number, DType::i32) : number;
  return b.bitcast(low_bits(b, b.cast(integer, byte_type(to)), to), to);
}

TensorBox packed_constant(ir::Lowering& l, const std::string& name, const Tensor& tensor) {
  const int bits = ir::bits_of(tensor.dtype);
  const std::int64_t per_byte = 8 / bits, count = tensor.count(), bytes = (count + per_byte - 1) / per_byte;
  const std::size_t ranks = tensor.data.per_rank.size();
  std::vector<std::byte> packed(static_cast<std::size_t>(bytes) * ranks);
  ir::ConstantData data = ir::own_bytes(std::move(packed));
  const std::span<const std::byte> all = data.per_rank[0];
  auto* out = const_cast<std::byte*>(all.data());
  data.per_rank.clear();
  for (std::size_t r = 0; r < ranks; ++r, out += bytes) {
    const std::span<const std::byte> in = tensor.data.per_rank[r];
    for (std::int64_t k = 0; k < count; ++k) {
      const auto low = static_cast<unsigned>(in[static_cast<std::size_t>(k)]) & ((1U << bits) - 1);
      out[k / per_byte] |= static_cast<std::byte>(low << (k % per_byte * bits));
    }
    data.per_rank.emplace_back(out, static_cast<std::size_t>(bytes));
  }
  const TensorBox box = l.constant(name, DType::u8, {bytes}, std::move(data));
  const std::vector<Expr> sizes(tensor.sizes.begin(), tensor.sizes.end());
  return l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    Expr linear = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) linear = linear * sizes[d] + at[d];
    const std::vector<Expr> index{ir::floor_div(linear, per_byte)};
    const ValueId byte = l.load(b, box, index);
    const ValueId shift = b.cast(b.index(ir::mod(linear, per_byte) * bits), DType::u8);
    const ValueId shifted = b.binary(OpCode::shift_right, byte, shift);
    return b.bitcast(low_bits(b, b.cast(shifted, byte_type(tensor.dtype)), tensor.dtype), tensor.dtype);
  });
}

TensorBox cast_tensor(ir::Lowering& l, TensorBox x, DType to, const CastOptions& options) {
  if (!is_storage(x.dtype()) && !is_storage(to)) return l.cast(std::move(x), to);
  if (x.dtype() == to) return x;
  return l.pointwise({std::move(x)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return cast_element(b, v[0], to, options);
  });
}

}  // namespace braid::frontend
