// The elementary functions of generated loops against libm in double.
#include "runtime/vec_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/half.h"
#include "runtime/kernel_support.h"

namespace braid::rt {
namespace {

// Distance in units in the last place of the exact result.
double ulps(float got, double exact) {
  const float want = static_cast<float>(exact);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(want) || std::isinf(got)) {
    if (want == got) return 0;
    // Overflow may be off by a rounding.
    return std::fabs(exact) > 3.402823e38 && std::isfinite(got) == false ? 0 : 1e30;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - exact) / unit;
}

// Every exponent, both signs, a few hundred mantissas each; and the special values.
std::vector<float> arguments(int per_exponent) {
  std::vector<float> out = {0.0f,  -0.0f, INFINITY, -INFINITY, NAN,    -NAN,     1.0f,
                            -1.0f, 0.5f,  88.72f,   88.73f,    -87.4f, -103.97f, -104.5f};
  uint32_t state = 12345;
  for (uint32_t e = 0; e < 255; ++e) {
    for (int k = 0; k < per_exponent; ++k) {
      state = state * 1664525u + 1013904223u;
      uint32_t u = (e << 23) | (state >> 9);
      if (k == 0) u = e << 23;
      if (k == 1) u = (e << 23) | 0x7fffffu;
      float x;
      std::memcpy(&x, &u, 4);
      out.push_back(x);
      out.push_back(-x);
    }
  }
  // The range that matters most, densely.
  for (int k = -200000; k <= 200000; ++k) out.push_back(static_cast<float>(k) * 1e-4f);
  return out;
}

template <class F, class G>
void expect_within(double limit, F f, G exact, const char* name) {
  double worst = 0;
  float at = 0;
  for (float x : arguments(300)) {
    const double error = ulps(f(x), exact(static_cast<double>(x)));
    if (error > worst) worst = error, at = x;
  }
  EXPECT_LE(worst, limit) << name << "(" << at << ") = " << f(at) << ", exactly " << exact(at);
  ::testing::Test::RecordProperty(name, std::to_string(worst));
}

#define BRAID_BOTH(fn, exact) [](float x) { return fn(x); }, [](double x) { return exact; }

TEST(VecMath, ExpIsExactToTwoUlp) { expect_within(2, BRAID_BOTH(vexp, std::exp(x)), "exp"); }

// The nearest power of 2 is not always chosen then.
TEST(VecMath, ExpAndTanhAreCloseInEveryRoundingMode) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    double exp = 0, tanh = 0;
    for (volatile float x = -87; x < 88; x = x + 0.0037f) {
      const double right = std::exp(static_cast<double>(x)), of_tanh = std::tanh(static_cast<double>(x));
      std::fesetround(mode);
      const volatile float y = vexp(x), z = vtanh(x);
      std::fesetround(FE_TONEAREST);
      exp = std::max(exp, std::fabs(static_cast<double>(y) - right) / right);
      tanh = std::max(tanh, std::fabs(static_cast<double>(z) - of_tanh));
    }
    EXPECT_LE(exp, 1e-4) << mode;
    EXPECT_LE(tanh, 2e-7) << mode;
  }
}

TEST(VecMath, LogIsExactToFourUlp) { expect_within(2, BRAID_BOTH(vlog, std::log(x)), "log"); }
TEST(VecMath, TanhIsExactToFourUlp) { expect_within(3, BRAID_BOTH(vtanh, std::tanh(x)), "tanh"); }
// Arguments of all exponents, of near ones, and small multiples of an eighth.
TEST(VecMath, FmodIsExact) {
  std::mt19937 random(1);
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  for (int k = 0; k < 300000; ++k) {
    float a = any(), b = any();
    if (k % 3 == 1) b = std::ldexp(a, -static_cast<int>(random() % 60)) * 1.25f;
    if (k % 3 == 2) {
      a = static_cast<float>(static_cast<int>(random() % 1001) - 500) / 8;
      b = static_cast<float>(static_cast<int>(random() % 17) - 8);
    }
    const float got = float_fmod(a, b), want = std::fmod(a, b);
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(got)) << a << " by " << b;
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << a << " by " << b;
  }
}
TEST(VecMath, ZerosKeepTheirSign) {
  for (float (*f)(float) : {static_cast<float (*)(float)>(vtanh), static_cast<float (*)(float)>(verf),
                            static_cast<float (*)(float)>(vasin), static_cast<float (*)(float)>(vatan),
                            static_cast<float (*)(float)>(vsin), static_cast<float (*)(float)>(vtan)})
    EXPECT_TRUE(std::signbit(f(-0.0f)) && !std::signbit(f(0.0f)));
}
TEST(VecMath, ErfIsExactToFourUlp) { expect_within(3, BRAID_BOTH(verf, std::erf(x)), "erf"); }
TEST(VecMath, SigmoidIsExactToFourUlp) {
  expect_within(4, BRAID_BOTH(vsigmoid, 1 / (1 + std::exp(-x))), "sigmoid");
}
TEST(VecMath, SinIsExactToTwoUlpForAllArguments) { expect_within(2, BRAID_BOTH(vsin, std::sin(x)), "sin"); }
TEST(VecMath, CosIsExactToTwoUlpForAllArguments) { expect_within(2, BRAID_BOTH(vcos, std::cos(x)), "cos"); }
// Generated loops choose these if no argument of theirs is wide.
TEST(VecMath, NarrowSinAndCosAreExactToTwoUlp) {
  const auto sine = [](float x) { return is_wide_angle(x) ? vsin(x) : vsin_narrow(x); };
  const auto cosine = [](float x) { return is_wide_angle(x) ? vcos(x) : vcos_narrow(x); };
  expect_within(
      2, sine, [](double x) { return std::sin(x); }, "narrow sin");
  expect_within(
      2, cosine, [](double x) { return std::cos(x); }, "narrow cos");
  EXPECT_TRUE(std::signbit(vsin_narrow(-0.0f)));
  EXPECT_TRUE(is_wide_angle(NAN) && is_wide_angle(INFINITY) && is_wide_angle(8193) && !is_wide_angle(-8192));
}
TEST(VecMath, Expm1IsExactToOneUlp) { expect_within(1, BRAID_BOTH(vexpm1, std::expm1(x)), "expm1"); }
TEST(VecMath, Log1pIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vlog1p, std::log1p(x)), "log1p"); }
TEST(VecMath, TanIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vtan, std::tan(x)), "tan"); }
TEST(VecMath, AsinIsExactToThreeUlp) { expect_within(2.5, BRAID_BOTH(vasin, std::asin(x)), "asin"); }
TEST(VecMath, AcosIsExactToTwoUlp) { expect_within(1.5, BRAID_BOTH(vacos, std::acos(x)), "acos"); }
TEST(VecMath, AtanIsExactToTwoUlp) { expect_within(2, BRAID_BOTH(vatan, std::atan(x)), "atan"); }
TEST(VecMath, SinhIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vsinh, std::sinh(x)), "sinh"); }
TEST(VecMath, CoshIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vcosh, std::cosh(x)), "cosh"); }
TEST(VecMath, AsinhIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vasinh, std::asinh(x)), "asinh"); }
TEST(VecMath, AcoshIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vacosh, std::acosh(x)), "acosh"); }
TEST(VecMath, AtanhIsExactToOneUlp) { expect_within(1, BRAID_BOTH(vatanh, std::atanh(x)), "atanh"); }
TEST(VecMath, RsqrtIsExactToTwoUlp) { expect_within(2, BRAID_BOTH(vrsqrt, 1 / std::sqrt(x)), "rsqrt"); }

TEST(VecMath, PowIsExactToTwoUlpAndKeepsTheSpecialCases) {
  double worst = 0;
  float at_x = 0, at_y = 0;
  const std::vector<float> ys = {0.0f,     -0.0f,     1.0f,  -1.0f, 2.0f,  3.0f,  0.5f,
                                 -0.5f,    1.5f,      -2.0f, 7.0f,  -3.0f, 10.3f, 0.1f,
                                 INFINITY, -INFINITY, NAN,   4e9f,  1e-9f, 37.0f, 100.5f};
  for (float x : arguments(20)) {
    for (float y : ys) {
      const double error = ulps(vpow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y)));
      if (error > worst) worst = error, at_x = x, at_y = y;
    }
  }
  EXPECT_LE(worst, 2) << "pow(" << at_x << ", " << at_y << ") = " << vpow(at_x, at_y) << ", exactly "
                      << std::pow(at_x, at_y);
}

TEST(Half, EveryValueSurvivesTheWayToFloatAndBack) {
  for (uint32_t u = 0; u < 65536; ++u) {
    const Half h{static_cast<uint16_t>(u)};
    const float f = to_float(h);
    _Float16 reference;
    std::memcpy(&reference, &u, 2);
    if (std::isnan(f)) {
      EXPECT_TRUE(static_cast<float>(reference) != static_cast<float>(reference));
    } else {
      ASSERT_EQ(f, static_cast<float>(reference)) << u;
      ASSERT_EQ(to_half(f).bits, u);
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  uint32_t state = 7;
  for (int k = 0; k < 2000000; ++k) {
    state = state * 1664525u + 1013904223u;
    uint32_t u = state;
    if (k & 1) u = (u & 0x9fffffffu) | 0x20000000u;  // near the range of half
    if (k & 2) u &= 0xfffff000u;                     // ties
    float x;
    std::memcpy(&x, &u, 4);
    if (std::isnan(x)) continue;
    const _Float16 want = static_cast<_Float16>(x);
    uint16_t want_bits;
    std::memcpy(&want_bits, &want, 2);
    ASSERT_EQ(to_half(x).bits, want_bits) << x;
  }
}

// Random bits, with many ties, infinities and NaNs, in strips of all lengths.
TEST(Half, StripsAreConvertedLikeSingleValues) {
  uint32_t state = 11;
  for (int turn = 0; turn < 20000; ++turn) {
    float from[67];
    Half to[68] = {};
    state = state * 1664525u + 1013904223u;
    const int64_t count = state >> 16 & 63u;
    for (float& x : from) {
      state = state * 1664525u + 1013904223u;
      uint32_t u = state;
      if (turn & 1) u = (u & 0x9fffffffu) | 0x20000000u;  // near the range of half
      if (turn & 2) u &= 0xfffff000u;                     // ties
      if (turn % 5 == 0) u |= 0x7f800000u;                // infinities and NaNs
      std::memcpy(&x, &u, 4);
    }
    to[count] = {0x1234};
    store_halves(to, from, count);
    for (int64_t k = 0; k < count; ++k) ASSERT_EQ(to[k].bits, to_half(from[k]).bits) << from[k];
    ASSERT_EQ(to[count].bits, 0x1234);
  }
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(to_bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie: even stays
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie: odd goes up
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(to_bfloat16(INFINITY).bits, 0x7f80);
}

}  // namespace
}  // namespace braid::rt
