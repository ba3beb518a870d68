#include "tests/emulated/cheap_math.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/emulated/half_types.h"
#include "tests/emulated/support.h"

namespace braid::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kSeed = 20;

struct Pairs {
  std::vector<float> x, y;

  void add(float a, float b) { x.push_back(a), y.push_back(b); }
};

class CheapMathTest : public EmulatedTest {
 protected:
  std::vector<float> values(CheapMath f, const std::vector<float>& x, const std::vector<float>& y) {
    std::vector<float> out(x.size());
    const char* error =
        run_cheap_math(f, x.data(), y.data(), out.data(), static_cast<std::int64_t>(x.size()));
    if (error != nullptr) throw std::runtime_error(error);
    return out;
  }
  std::vector<float> values(CheapMath f, const std::vector<float>& x) { return values(f, x, x); }
};

float with_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The distance of floats at the exact value.
double ulp(double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, -126) - 23);
}

bool is_special(double v) { return std::isnan(v) || std::isinf(v) || v == 0; }

struct Worst {
  double ulps = 0, absolute = 0;
  std::string at, wrong;
};

// Returns the largest errors against the exact results. A denormal result may err by 2^-149 more, and one
// beyond the largest number is infinite.
Worst worst(const std::vector<float>& got, const std::function<double(std::size_t)>& exact,
            const std::function<std::string(std::size_t)>& operands) {
  Worst out;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double want = exact(k), distance = std::fabs(got[k] - want);
    const auto wrong = [&](const char* why) {
      if (out.wrong.empty()) out.wrong = operands(k) + ": " + why + ", " + std::to_string(got[k]);
    };
    if (std::isnan(want) || std::isinf(want)) {
      if (std::isnan(want) != std::isnan(got[k]) || (std::isinf(want) && got[k] != want)) wrong("special");
      continue;
    }
    if (std::isnan(got[k])) wrong("not a number");
    if (std::isinf(got[k])) {
      if (std::fabs(want) < 0x1.fffff8p127 || std::signbit(got[k]) != std::signbit(want)) wrong("infinite");
      continue;
    }
    if (std::fabs(want) >= 0x1.00001p128) wrong("finite");
    if (std::signbit(got[k]) != std::signbit(want)) wrong("sign");
    const bool denormal = std::fabs(want) < 0x1p-126;
    const double ulps = std::max(0.0, distance - (denormal ? 0x1p-149 : 0)) / ulp(want);
    out.absolute = std::max(out.absolute, distance);
    if (ulps > out.ulps) out.ulps = ulps, out.at = operands(k);
  }
  return out;
}

// -------------------------------------------------------------- quotients

// Every exponent of both operands, denormals included, with the mantissas at the ends and random ones.
Pairs quotients_of_all_exponents() {
  std::mt19937 random(kSeed);
  Pairs pairs;
  for (std::uint32_t a = 0; a < 255; ++a) {
    for (std::uint32_t b = 0; b < 255; ++b) {
      const std::uint32_t mantissas[] = {0, 0x7fffff, static_cast<std::uint32_t>(random() & 0x7fffff)};
      const std::uint32_t m = mantissas[random() % 3], n = mantissas[random() % 3];
      const std::uint32_t sign = static_cast<std::uint32_t>(random() & 0x80000000u);
      pairs.add(with_bits(sign | a << 23 | m), with_bits(b << 23 | n));
      pairs.add(with_bits(a << 23 | static_cast<std::uint32_t>(random() & 0x7fffff)),
                with_bits(sign | b << 23 | static_cast<std::uint32_t>(random() & 0x7fffff)));
    }
  }
  return pairs;
}

TEST_F(CheapMathTest, QuotientsErrByTwoUlp) {
  const Pairs pairs = quotients_of_all_exponents();
  const Worst w = worst(
      values(CheapMath::quotient, pairs.x, pairs.y),
      [&](std::size_t k) { return static_cast<double>(pairs.x[k]) / static_cast<double>(pairs.y[k]); },
      [&](std::size_t k) { return fmt::format("seed {}: {:a} / {:a}", kSeed, pairs.x[k], pairs.y[k]); });
  EXPECT_EQ(w.wrong, "");
  EXPECT_LE(w.ulps, 2) << w.at;
  RecordProperty("ulps", std::to_string(w.ulps));
}

TEST_F(CheapMathTest, QuotientsOfSpecialValuesAreAsIeeeSays) {
  const std::vector<float> special = {0.0f,
                                      -0.0f,
                                      kInf,
                                      -kInf,
                                      kNan,
                                      1.0f,
                                      -3.0f,
                                      0x1p-149f,
                                      -0x1p-149f,
                                      0x1p-126f,
                                      0x1.fffffep127f,
                                      -0x1.fffffep127f,
                                      0x1p100f,
                                      0x1p-100f};
  Pairs pairs;
  for (float a : special) {
    for (float b : special) pairs.add(a, b);
  }
  const std::vector<float> got = values(CheapMath::quotient, pairs.x, pairs.y);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const float want = pairs.x[k] / pairs.y[k];
    if (!is_special(want)) continue;
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got[k])
                                 : got[k] == want && std::signbit(got[k]) == std::signbit(want))
        << pairs.x[k] << " / " << pairs.y[k] << ": " << got[k];
  }
}

TEST_F(CheapMathTest, HalvesAsDivisorsNeedNoScale) {
  Pairs pairs;
  for (float a : {0.0f, -0.0f, kInf, kNan, 1.0f, -3.0f}) {
    for (float b : {0.0f, -0.0f, kInf, -kInf, kNan, 65504.0f, 0x1p-24f}) pairs.add(a, b);
  }
  const std::vector<float> got = values(CheapMath::quotient_in_range, pairs.x, pairs.y);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const float want = pairs.x[k] / pairs.y[k];
    if (!is_special(want)) continue;
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got[k])
                                 : got[k] == want && std::signbit(got[k]) == std::signbit(want))
        << pairs.x[k] << " / " << pairs.y[k] << ": " << got[k];
  }
}

TEST_F(CheapMathTest, QuotientsByPowersOfTwoAreExact) {
  std::mt19937 random(kSeed);
  Pairs pairs;
  for (std::uint32_t b = 1; b < 254; ++b) {
    for (int n = 0; n < 32; ++n) {
      const std::uint32_t exponent = std::clamp<std::uint32_t>(b + random() % 64, 33, 222) - 32;
      pairs.add(with_bits(exponent << 23 | static_cast<std::uint32_t>(random() & 0x7fffff)),
                with_bits(b << 23));
    }
  }
  const std::vector<float> got = values(CheapMath::quotient, pairs.x, pairs.y);
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_EQ(got[k], pairs.x[k] / pairs.y[k])
        << "seed " << kSeed << ": " << pairs.x[k] << " / " << pairs.y[k];
}

// The largest error of values rounded to f16, in its ulps. Exact values that overflow do not count.
double worst_f16_ulps(const std::vector<float>& got, const std::function<double(std::size_t)>& exact) {
  double worst = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double want = exact(k);
    if (!(std::fabs(want) < 65504)) continue;
    int exponent = 0;
    std::frexp(want, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 1, -14) - 10);
    worst = std::max(worst, std::fabs(static_cast<float>(__half(got[k])) - want) / unit);
  }
  return worst;
}

// Every finite f16 as divisor, with either form of the reciprocal.
TEST_F(CheapMathTest, QuotientsOfHalvesErrByLittleMoreThanHalfAnUlp) {
  std::mt19937 random(kSeed);
  Pairs pairs;
  for (std::uint32_t bits = 1; bits < 0x7c00; ++bits) {
    for (int n = 0; n < 10; ++n)
      pairs.add(__half::widen(static_cast<std::uint16_t>(random() % 0x7c00)),
                __half::widen(static_cast<std::uint16_t>(bits)));
  }
  double worst = 0;
  for (CheapMath form : {CheapMath::quotient, CheapMath::quotient_in_range}) {
    worst = std::max(worst, worst_f16_ulps(values(form, pairs.x, pairs.y), [&](std::size_t k) {
                       return static_cast<double>(pairs.x[k]) / static_cast<double>(pairs.y[k]);
                     }));
  }
  EXPECT_LE(worst, 0.5003) << "seed " << kSeed;
  RecordProperty("ulps", std::to_string(worst));
}

// ----------------------------------------------------- functions of one operand

// Every exponent and sign, with mantissas at the ends and random ones.
std::vector<float> all_exponents(int each) {
  std::mt19937 random(kSeed);
  std::vector<float> x;
  for (std::uint32_t top = 0; top < 512; ++top) {
    if (top % 256 == 255) continue;
    x.push_back(with_bits(top << 23));
    x.push_back(with_bits(top << 23 | 0x7fffff));
    for (int n = 0; n < each; ++n)
      x.push_back(with_bits(top << 23 | static_cast<std::uint32_t>(random() & 0x7fffff)));
  }
  for (float v : {kInf, -kInf, kNan, 0x1p-149f, -0x1p-149f}) x.push_back(v);
  return x;
}

std::vector<float> grid(float from, float to, int count) {
  std::vector<float> x;
  for (int k = 0; k <= count; ++k)
    x.push_back(from + (to - from) * static_cast<float>(k) / static_cast<float>(count));
  return x;
}

Worst worst_of(const std::vector<float>& x, const std::vector<float>& got, double (*exact)(double)) {
  return worst(
      got, [&](std::size_t k) { return exact(static_cast<double>(x[k])); },
      [&](std::size_t k) { return fmt::format("seed {}: {:a}", kSeed, x[k]); });
}

struct Function {
  const char* name;
  CheapMath f;
  double (*exact)(double);
  double ulps;
};

class CheapFunctions : public CheapMathTest, public ::testing::WithParamInterface<Function> {};

TEST_P(CheapFunctions, ErrByStatedUlps) {
  const Function& f = GetParam();
  const std::vector<float> x = all_exponents(400);
  const Worst w = worst_of(x, values(f.f, x), f.exact);
  EXPECT_EQ(w.wrong, "");
  EXPECT_LE(w.ulps, f.ulps) << w.at;
  RecordProperty("ulps", std::to_string(w.ulps));
}

double reciprocal(double x) { return 1 / x; }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double root(double x) { return std::sqrt(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

INSTANTIATE_TEST_SUITE_P(CheapMath, CheapFunctions,
                         ::testing::Values(Function{"reciprocal", CheapMath::reciprocal, reciprocal, 1},
                                           Function{"rsqrt", CheapMath::rsqrt, rsqrt, 1},
                                           Function{"sqrt", CheapMath::sqrt, root, 4}),
                         [](const auto& info) { return std::string(info.param.name); });

// This is where exp(-x) is finite. Below, the result is 0, as that of the same formula in IEEE's arithmetic.
TEST_F(CheapMathTest, SigmoidsErrByFourUlp) {
  std::vector<float> x = all_exponents(400);
  const std::vector<float> near = grid(-88, 88, 1 << 16);
  x.insert(x.end(), near.begin(), near.end());
  std::vector<float> below = x;
  std::erase_if(x, [](float v) { return v < -88; });
  std::erase_if(below, [](float v) { return !(v < -88); });
  const Worst w = worst_of(x, values(CheapMath::sigmoid, x), sigmoid);
  EXPECT_EQ(w.wrong, "");
  EXPECT_LE(w.ulps, 4) << w.at;
  RecordProperty("ulps", std::to_string(w.ulps));
  for (float v : values(CheapMath::sigmoid, below)) ASSERT_TRUE(v >= 0 && v < 0x1p-125f) << v;
}

TEST_F(CheapMathTest, SquareRootsOfNormalNumbersErrByOneUlp) {
  std::vector<float> x = all_exponents(400);
  std::erase_if(x, [](float v) { return !(v >= 0x1p-126f); });
  const Worst w = worst_of(x, values(CheapMath::sqrt, x), root);
  EXPECT_LE(w.ulps, 1) << w.at;
  RecordProperty("ulps", std::to_string(w.ulps));
}

TEST_F(CheapMathTest, ExpForHalfErrsByLessThanAHundredthOfAHalf) {
  std::vector<float> x = grid(-104, 89, 1 << 18), all = all_exponents(100);
  x.insert(x.end(), all.begin(), all.end());
  const std::vector<float> got = values(CheapMath::exp_for_half, x);
  double relative = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double want = std::exp(static_cast<double>(x[k]));
    if (std::isnan(x[k])) {
      EXPECT_TRUE(std::isnan(got[k]));
    } else if (want >= 0x1.fffcp127) {
      EXPECT_GT(got[k], 0x1.fff8p127f) << x[k];
    } else if (want < 0x1p-126) {
      EXPECT_LE(std::fabs(got[k] - want), 0x1p-143) << x[k];  // 2^-17 of the denormal, rounded
    } else {
      relative = std::max(relative, std::fabs(got[k] - want) / want);
    }
  }
  EXPECT_LE(relative, 0x1p-17);
  RecordProperty("relative", fmt::format("{:.2e}", relative));
  EXPECT_EQ(values(CheapMath::exp_for_half, {0.0f, -0.0f}), (std::vector<float>{1.0f, 1.0f}));
}

TEST_F(CheapMathTest, ErfForHalfErrsByStatedAmounts) {
  std::vector<float> x = grid(-5, 5, 1 << 19), all = all_exponents(100);
  x.insert(x.end(), all.begin(), all.end());
  const std::vector<float> got = values(CheapMath::erf_for_half, x);
  double most = 0, at_ends = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double want = std::erf(static_cast<double>(x[k])), error = std::fabs(got[k] - want);
    if (std::isnan(x[k])) {
      EXPECT_TRUE(std::isnan(got[k]));
      continue;
    }
    ASSERT_FALSE(std::isnan(got[k])) << x[k];
    EXPECT_EQ(std::signbit(got[k]), std::signbit(x[k])) << x[k];
    EXPECT_LE(std::fabs(got[k]), 1) << x[k];
    most = std::max(most, error);
    if (std::fabs(x[k]) > 3) at_ends = std::max(at_ends, error);
  }
  EXPECT_LE(most, 3e-7);
  EXPECT_LE(at_ends, 5e-8);
  RecordProperty("absolute", fmt::format("{:.2e}", most));
}

// x / 2 * (1 + erf(x / sqrt(2))) of every f16, beside the same formula with the host's erff.
TEST_F(CheapMathTest, GeluOfHalvesIsAsGoodAsWithErff) {
  std::vector<float> x, scaled;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float v = __half::widen(static_cast<std::uint16_t>(bits));
    if (std::isfinite(v)) x.push_back(v), scaled.push_back(v * 0.70710677f);
  }
  const auto gelu = [&](const std::vector<float>& erf) {
    std::vector<float> out;
    for (std::size_t k = 0; k < x.size(); ++k) out.push_back(x[k] * 0.5f * (1.0f + erf[k]));
    return worst_f16_ulps(out, [&](std::size_t k) {
      const double v = static_cast<double>(x[k]);
      return v / 2 * std::erfc(-v / std::sqrt(2.0));
    });
  };
  std::vector<float> erff;
  for (float v : scaled) erff.push_back(std::erf(v));
  const double cheap = gelu(values(CheapMath::erf_for_half, scaled)), ieee = gelu(erff);
  RecordProperty("cheap", std::to_string(cheap));
  RecordProperty("ieee", std::to_string(ieee));
  EXPECT_LE(cheap, ieee + 0.5);
}

}  // namespace
}  // namespace braid::test
