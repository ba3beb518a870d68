// Pairs of halves in a register, against exact results that are rounded by searching for the nearest number.
#include <bit>
#include <cmath>
#include <random>

#include "runtime/emulated/half_types.h"
#include "tests/emulated/support.h"
#include "tests/emulated/tensor_cores.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

double half_number(uint32_t bits) { return static_cast<double>(__half::widen(static_cast<uint16_t>(bits))); }
double bfloat16_number(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); }

class PackedHalfTest : public EmulatedTest {};

// The number of 16 bits next to `exact`, which is finite and so are the results; of two as near, the even
// one.
uint16_t nearest(long double exact, double (*value)(uint32_t)) {
  const auto distance = [&](uint32_t bits) {
    return std::fabs(static_cast<long double>(value(bits)) - exact);
  };
  uint32_t low = 0, high = 0x7fff;  // by magnitude, on the side of the sign
  const uint32_t sign = std::signbit(exact) ? 0x8000u : 0;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    const double at = value(middle);
    (at <= std::fabs(exact) ? low : high) = middle;  // NaN and infinity are above
  }
  const auto d = [&](uint32_t magnitude) { return distance(magnitude | sign); };
  const bool down = d(low) < d(high) || (d(low) == d(high) && low % 2 == 0);
  return static_cast<uint16_t>((down ? low : high) | sign);
}

// Operands whose exact sums and products have at most 64 bits: those of a long double.
uint16_t drawn_half(bool bfloat16, std::mt19937_64& random) {
  const float value = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(random),
                                 std::uniform_int_distribution(-8, 6)(random));
  return bfloat16 ? __nv_bfloat16::round(value) : __half::round(value);
}

TEST_F(PackedHalfTest, PairsAreRoundedOnce) {
  const int n = random_cases(20000);
  for (const bool bfloat16 : {false, true}) {
    const auto value = bfloat16 ? bfloat16_number : half_number;
    std::mt19937_64 random(first_seed());
    SCOPED_TRACE((bfloat16 ? "bf16, seed " : "f16, seed ") + std::to_string(first_seed()));
    std::vector<uint32_t> a(n), b(n), c(n), got(n);
    for (auto* operand : {&a, &b, &c})
      for (uint32_t& pair : *operand)
        pair = drawn_half(bfloat16, random) | uint32_t{drawn_half(bfloat16, random)} << 16;
    for (const PairOp op : {PairOp::kAdd, PairOp::kMul, PairOp::kFma, PairOp::kMax}) {
      ASSERT_EQ(run_pairs(op, bfloat16, a.data(), b.data(), c.data(), got.data(), n), nullptr);
      for (int i = 0; i < n; ++i) {
        for (const int shift : {0, 16}) {
          const long double x = value(a[i] >> shift & 0xffff), y = value(b[i] >> shift & 0xffff);
          const long double z = value(c[i] >> shift & 0xffff);
          const long double exact = op == PairOp::kAdd   ? x + y
                                    : op == PairOp::kMul ? x * y
                                    : op == PairOp::kFma ? x * y + z
                                                         : std::max(x, y);
          if (exact == 0) continue;
          ASSERT_EQ(got[i] >> shift & 0xffff, nearest(exact, value))
              << "op " << static_cast<int>(op) << ", pair " << i << ", shift " << shift;
        }
      }
    }
    std::vector<uint32_t> first(n), second(n);
    for (int i = 0; i < n; ++i)
      first[i] = std::bit_cast<uint32_t>(std::uniform_real_distribution<float>(-9, 9)(random)),
      second[i] = std::bit_cast<uint32_t>(std::uniform_real_distribution<float>(-9, 9)(random));
    ASSERT_EQ(run_pairs(PairOp::kPack, bfloat16, first.data(), second.data(), c.data(), got.data(), n),
              nullptr);
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(got[i] & 0xffff, nearest(std::bit_cast<float>(first[i]), value))
          << "the first is in the low bits";
      ASSERT_EQ(got[i] >> 16, nearest(std::bit_cast<float>(second[i]), value));
    }
  }
}

TEST_F(PackedHalfTest, PairsOfSpecialNumbers) {
  struct Case {
    PairOp op;
    uint32_t a, b, c, want;
  };
  const Case halves[] = {
      {PairOp::kMax, 0x7e003c00, 0x3c00fe00, 0, 0x7fff7fff},  // a NaN on either side
      {PairOp::kMax, 0x80000000, 0x00008000, 0, 0x00000000},  // zeros
      {PairOp::kAdd, 0x7bff7c00, 0x7bfffc00, 0, 0x7c007fff},  // overflow, inf - inf
      {PairOp::kFma, 0x7bff7bff, 0x4000c000, 0x7c007c00, 0x7c007c00},
      // (1 + 2^-10) * 1.5 is halfway between two numbers; 2^-24 more or less, which a float loses, decides.
      {PairOp::kFma, 0x3c013c01, 0x3e003e00, 0x00018001, 0x3e023e01},
  };
  for (const Case& c : halves) {
    uint32_t got = 0;
    ASSERT_EQ(run_pairs(c.op, false, &c.a, &c.b, &c.c, &got, 1), nullptr);
    EXPECT_EQ(got, c.want) << std::hex << c.a << " " << c.b;
  }
  // The same of bf16, with 2^-100.
  const uint32_t a = 0x3f813f81, b = 0x3fc03fc0, c = 0x0d800d80 | 0x80000000u;
  uint32_t got = 0;
  ASSERT_EQ(run_pairs(PairOp::kFma, true, &a, &b, &c, &got, 1), nullptr);
  EXPECT_EQ(got, 0x3fc13fc2u) << std::hex << got;
}

}  // namespace
}  // namespace braid::test
