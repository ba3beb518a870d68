#include "ir/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ir/element.h"
#include "ir/parser.h"
#include "tests/support/interpreter_runs.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- single instructions against C++

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<float> kFloats = {0,  -0.0F, 1,  -1,   0.5F,  -2.5F, 3.5F,  7,
                                    -7, 1e-3F, 88, -100, 1e30F, kInf,  -kInf, NAN};

void expect_same(float got, float want, const std::string& what) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got;
  } else {
    EXPECT_TRUE(got == want || std::abs(got - want) <= 2e-7F * std::abs(want))
        << what << ": " << got << " instead of " << want;
  }
}

TEST(Interpreter, UnaryFloatInstructions) {
  const std::vector<std::pair<std::string, float (*)(float)>> cases = {
      {"neg", [](float x) { return -x; }},
      {"abs", [](float x) { return std::fabs(x); }},
      {"sign", [](float x) { return x > 0   ? 1.0F
                                    : x < 0 ? -1.0F
                                            : x; }},
      {"exp", [](float x) { return std::exp(x); }},
      {"log", [](float x) { return std::log(x); }},
      {"sqrt", [](float x) { return std::sqrt(x); }},
      {"rsqrt", [](float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }},
      {"reciprocal", [](float x) { return 1 / x; }},
      {"erf", [](float x) { return std::erf(x); }},
      {"tanh", [](float x) { return std::tanh(x); }},
      {"sigmoid", [](float x) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x)))); }},
      {"sin", [](float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }},
      {"cos", [](float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }},
      {"floor", [](float x) { return std::floor(x); }},
      {"ceil", [](float x) { return std::ceil(x); }},
      {"round", [](float x) { return std::nearbyint(x); }}};
  for (const auto& [name, fn] : cases) {
    const auto out =
        run_one("graph g dim n in [1, 99] input %x: f32[n] %y: f32[n] = pointwise { %0 = load %x %1 = " +
                    name + " %0 store %1 } output %y",
                {f32({16}, kFloats)})[0]
            .values<float>();
    for (std::size_t i = 0; i < kFloats.size(); ++i)
      expect_same(out[i], fn(kFloats[i]), name + "(" + std::to_string(kFloats[i]) + ")");
  }
}

TEST(Interpreter, BinaryFloatInstructions) {
  const auto nan_min = [](float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); };
  const auto nan_max = [](float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); };
  const std::vector<std::pair<std::string, std::function<float(float, float)>>> cases = {
      {"add", [](float a, float b) { return a + b; }},
      {"sub", [](float a, float b) { return a - b; }},
      {"mul", [](float a, float b) { return a * b; }},
      {"div", [](float a, float b) { return a / b; }},
      {"mod",
       [](float a, float b) {
         const float r = std::fmod(a, b);
         return r != 0 && (r < 0) != (b < 0) ? r + b : r;
       }},
      {"fmod", [](float a, float b) { return std::fmod(a, b); }},
      {"pow", [](float a, float b) { return std::pow(a, b); }},
      {"min", nan_min},
      {"max", nan_max}};
  const std::vector<std::pair<std::string, std::function<bool(float, float)>>> predicates = {
      {"eq", [](float a, float b) { return a == b; }}, {"ne", [](float a, float b) { return a != b; }},
      {"lt", [](float a, float b) { return a < b; }},  {"le", [](float a, float b) { return a <= b; }},
      {"gt", [](float a, float b) { return a > b; }},  {"ge", [](float a, float b) { return a >= b; }}};
  const Tensor x = f32({16}, kFloats);
  const auto program = [](const std::string& name, const char* type) {
    return std::string("graph g input %x: f32[16] %y: ") + type +
           "[16, 16] = pointwise { %0 = load %x[i0] %1 = load %x[i1] %2 = " + name +
           " %0, %1 store %2 } output %y";
  };
  for (const auto& [name, fn] : cases) {
    const auto out = run_one(program(name, "f32"), {x})[0].values<float>();
    for (std::size_t i = 0; i < 256; ++i) {
      expect_same(out[i], fn(kFloats[i / 16], kFloats[i % 16]),
                  fmt::format("{}({}, {})", name, kFloats[i / 16], kFloats[i % 16]));
    }
  }
  for (const auto& [name, fn] : predicates) {
    const auto out = run_one(program(name, "bool"), {x})[0].values<std::uint8_t>();
    for (std::size_t i = 0; i < 256; ++i)
      EXPECT_EQ(out[i], fn(kFloats[i / 16], kFloats[i % 16])) << name << i;
  }
  const auto nan = run_one(
      "graph g input %x: f32[16] %y: bool[16] = pointwise { %0 = load %x %1 = is_nan %0 store %1 } output %y",
      {x});
  const auto inf = run_one(
      "graph g input %x: f32[16] %y: bool[16] = pointwise { %0 = load %x %1 = is_inf %0 store %1 } output %y",
      {x});
  EXPECT_EQ(nan[0].values<std::uint8_t>()[15], 1);
  EXPECT_EQ(std::accumulate(nan[0].bytes.begin(), nan[0].bytes.end(), 0,
                            [](int s, std::byte b) { return s + static_cast<int>(b); }),
            1);
  EXPECT_THAT(inf[0].values<std::uint8_t>(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0));
}

template <class T>
void check_integers(DType dtype) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> v = {T(0), T(1), T(2), T(7), T(-1), T(-7), Limits::min(), Limits::max(), T(100)};
  const auto n = static_cast<std::int64_t>(v.size());
  const auto wide = [](T a) { return static_cast<__int128>(a); };
  const std::vector<std::pair<std::string, std::function<__int128(T, T)>>> cases = {
      {"add", [&](T a, T b) { return wide(a) + wide(b); }},
      {"sub", [&](T a, T b) { return wide(a) - wide(b); }},
      {"mul",
       [&](T a, T b) {
         return static_cast<__int128>(static_cast<unsigned __int128>(wide(a)) *
                                      static_cast<unsigned __int128>(wide(b)));
       }},
      {"div", [&](T a, T b) { return wide(a) / wide(b); }},
      {"mod",
       [&](T a, T b) {
         const __int128 r = wide(a) % wide(b);
         return r != 0 && (r < 0) != (wide(b) < 0) ? r + wide(b) : r;
       }},
      {"fmod", [&](T a, T b) { return wide(a) % wide(b); }},
      {"min", [&](T a, T b) { return wide(std::min(a, b)); }},
      {"max", [&](T a, T b) { return wide(std::max(a, b)); }},
      {"lt", [&](T a, T b) { return __int128(a < b); }},
      {"ge", [&](T a, T b) { return __int128(a >= b); }}};
  const std::string type(to_string(dtype));
  for (const auto& [name, fn] : cases) {
    const bool divides = name == "div" || name == "mod" || name == "fmod",
               predicate = name == "lt" || name == "ge";
    const std::string text = fmt::format(
        "graph g input %x: {0}[{1}] %y: {3}[{1}, {1}] = pointwise {{ %0 = load %x[i0] %1 = load %x[{4}i1] %2 "
        "= {2} %0, %1 store %2 }} output %y",
        type, n, name, predicate ? "bool" : type, divides ? "1 + 0*" : "");
    // Division by every value but zero, one at a time.
    for (std::int64_t b = 0; b < n; ++b) {
      if (divides && v[static_cast<std::size_t>(b)] == 0) continue;
      std::string t = text;
      if (divides) t.replace(t.find("1 + 0*i1"), 8, std::to_string(b));
      const Tensor out = run_one(t, {make_tensor(dtype, {n}, v)})[0];
      for (std::int64_t a = 0; a < n; ++a) {
        const auto at = static_cast<std::size_t>(a * n + b);
        const auto want = fn(v[static_cast<std::size_t>(a)], v[static_cast<std::size_t>(b)]);
        if (predicate) {
          EXPECT_EQ(out.values<std::uint8_t>()[at], static_cast<std::uint8_t>(want));
        } else {
          EXPECT_EQ(out.values<T>()[at], static_cast<T>(want)) << type << " " << name << " " << a << " " << b;
        }
      }
      if (!divides) break;
    }
  }
}

TEST(Interpreter, IntegerInstructionsWrap) {
  check_integers<std::int8_t>(DType::i8);
  check_integers<std::int16_t>(DType::i16);
  check_integers<std::int32_t>(DType::i32);
  check_integers<std::int64_t>(DType::i64);
  check_integers<std::uint8_t>(DType::u8);
  check_integers<std::uint32_t>(DType::u32);
  check_integers<std::uint64_t>(DType::u64);
}

TEST(Interpreter, IntegerPowersAndSigns) {
  const auto out = run_one(
      "graph g input %x: i64[5] input %e: i64[5] %y: i64[5] = pointwise { %0 = load %x %1 = load %e %2 = pow "
      "%0, %1 store %2 } "
      "%z: i64[5] = pointwise { %0 = load %x %1 = sign %0 %2 = abs %0 %3 = neg %0 %4 = add %1, %2 %5 = mul "
      "%4, %3 store %5 } output %y output %z",
      {i64({5}, {2, -3, 2, -1, 1}), i64({5}, {10, 3, -1, -3, -5})});
  EXPECT_THAT(out[0].values<std::int64_t>(), ElementsAre(1024, -27, 0, -1, 1));
  EXPECT_THAT(out[1].values<std::int64_t>(), ElementsAre(-6, 6, -6, 0, -2));
}

TEST(Interpreter, LogicAndWhere) {
  const auto out = run_one(
      "graph g input %a: bool[4] input %b: bool[4] %y: i64[4] = pointwise { %a = load %a %b = load %b %and = "
      "and %a, %b %or = or %a, %b "
      "%xor = xor %a, %b %not = not %a %0 = cast i64 %and %1 = cast i64 %or %2 = cast i64 %xor %3 = cast i64 "
      "%not %c = constant i64 10 "
      "%4 = mul %0, %c %5 = add %4, %1 %6 = mul %5, %c %7 = add %6, %2 %8 = mul %7, %c %9 = add %8, %3 %r = "
      "where %a, %9, %c store %r } output %y",
      {boolean({4}, {0, 0, 1, 1}), boolean({4}, {0, 1, 0, 1})});
  EXPECT_THAT(out[0].values<std::int64_t>(), ElementsAre(10, 10, 110, 1100));
}

TEST(Interpreter, CastsTruncateSaturateAndRound) {
  const auto cast = [](const char* from, const char* to, Tensor x) {
    const auto n = x.sizes[0];
    return run_one(fmt::format("graph g input %x: {0}[{2}] %y: {1}[{2}] = pointwise {{ %0 = load %x %1 = "
                               "cast {1} %0 store %1 }} output %y",
                               from, to, n),
                   {std::move(x)})[0];
  };
  EXPECT_THAT(cast("f32", "i8", f32({6}, {1.9F, -1.9F, 300, -300, NAN, kInf})).values<std::int8_t>(),
              ElementsAre(1, -1, 127, -128, 0, 127));
  EXPECT_THAT(cast("f32", "u64", f32({3}, {-1, 3e19F, 2.5F})).values<std::uint64_t>(),
              ElementsAre(0u, ~std::uint64_t{0}, 2u));
  EXPECT_THAT(cast("f32", "bool", f32({3}, {0, -0.0F, NAN})).values<std::uint8_t>(), ElementsAre(0, 0, 1));
  EXPECT_THAT(cast("i64", "u8", i64({2}, {256 + 7, -1})).values<std::uint8_t>(), ElementsAre(7, 255));
  EXPECT_THAT(cast("i64", "f32", i64({1}, {16777217})).values<float>(), ElementsAre(16777216.0F));
  EXPECT_THAT(cast("f32", "bf16", f32({1}, {1.00390625F})).values<std::uint16_t>(), ElementsAre(0x3f80));
  EXPECT_THAT(
      cast("u64", "f64", make_tensor<std::uint64_t>(DType::u64, {1}, {~std::uint64_t{0}})).values<double>(),
      ElementsAre(18446744073709551616.0));
}

TEST(Interpreter, HalfPrecisionRoundsAfterEveryInstruction) {
  // 2048 + 1 = 2049 is not a half: it rounds to 2048, and + 1 again stays there.
  const auto out = run_one(
      "graph g %y: f16[1] = pointwise { %0 = constant f16 2048.0 %1 = constant f16 1.0 %2 = add %0, %1 %3 = "
      "add %2, %1 store %3 } output %y",
      {});
  EXPECT_EQ(half_to_float(out[0].values<std::uint16_t>()[0]), 2048.0F);
}

// ---- loops

TEST(Interpreter, MasksSkipLoadsAndIndirectLoadsAreChecked) {
  const char* text = R"(graph g dim n in [1, 9]
input %table: f32[3, 2] input %ids: i64[n]
%y: f32[n, 2] = pointwise {
  %id = load %ids[i0]
  %zero = constant i64 0
  %known = ge %id, %zero
  %safe = max %id, %zero
  %c = check_index %safe, 3
  %v = load %table[%c, i1] if %known
  store %v
}
output %y)";
  const Tensor table = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run_one(text, {table, i64({3}, {2, -1, 0})})[0].values<float>(), ElementsAre(5, 6, 0, 0, 1, 2));
  expect_user_error(711, "node 'y'", [&] { run_one(text, {table, i64({1}, {3})}); });
}

TEST(Interpreter, ReductionsOfEveryKindAndOverNothing) {
  for (const auto& [kind, want, empty] : std::vector<std::tuple<std::string, float, float>>{
           {"sum", 4, 0}, {"prod", -12, 1}, {"max", 3, -kInf}, {"min", -1, kInf}}) {
    const std::string text = "graph g dim n in [0, 9] input %x: f32[2, n] %y: f32[2] = reduction " + kind +
                             " over [n] { %0 = load %x[i0, i1] store %0 } output %y";
    EXPECT_THAT(run_one(text, {f32({2, 3}, {-1, 2, 3, 4, -1, -3})})[0].values<float>()[0],
                kind == "prod" ? -6 : want);
    EXPECT_THAT(run_one(text, {f32({2, 0}, {})})[0].values<float>(), ElementsAre(empty, empty));
  }
}

TEST(Interpreter, FloatSumsAreAccurate) {
  // In f32 the ones would vanish beside 2^24.
  std::vector<float> x(1001, 1.0F);
  x[0] = 16777216.0F;
  const auto out = run_one(
      "graph g input %x: f32[1001] %y: f32[] = reduction sum [] over [1001] { %0 = load %x[i0] store %0 } "
      "output %y",
      {f32({1001}, x)});
  EXPECT_EQ(out[0].values<float>()[0], 16778216.0F);
}

TEST(Interpreter, TransposedStoresViewsAndOddStrides) {
  const auto out = run_one(R"(graph g dim n in [1, 9]
input %x: f32[2, n] strides [1, 2]
buffer %both: f32[2, n + 1]
%a: f32[2, n] in %both strides [n + 1, 1] = pointwise { %0 = load %x store %0 }
%b: f32[2, 1] in %both at n strides [n + 1, 1] = pointwise { %0 = constant f32 9 store %0 }
%t: f32[n + 1, 2] = pointwise [2, n + 1] { %0 = load %both store %0 at 2*i1 + i0 }
output %t output %x)",
                           {f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(1, 4, 2, 5, 3, 6, 9, 9));
  EXPECT_THAT(out[1].values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Interpreter, MutationsAndAliasesShareBytes) {
  const auto out =
      run_one(R"(graph g dim past in [0, 8]
input %cache: f32[past + 1, 2]
input %new: f32[2]
%cache.1 mutates %cache = pointwise [2] { %0 = load %new store %0 at 2*past + i0 }
%present: f32[past + 1, 2] output alias $cache = extern
output %present)",
              {f32({3, 2}, {1, 2, 3, 4, 0, 0}), f32({2}, {8, 9})}, {.externs = {{"", [](ExternCall&) {}}}});
  EXPECT_THAT(out[0].values<float>(), ElementsAre(0, 0, 0, 0, 0, 0))
      << "the extern kernel writes zeros into the cache";
  const auto kept = run_one(R"(graph g dim past in [0, 8]
input %cache: f32[past + 1, 2]
input %new: f32[2]
%cache.1 mutates %cache = pointwise [2] { %0 = load %new store %0 at 2*past + i0 }
output %cache.1)",
                            {f32({3, 2}, {1, 2, 3, 4, 0, 0}), f32({2}, {8, 9})});
  EXPECT_THAT(kept[0].values<float>(), ElementsAre(1, 2, 3, 4, 8, 9));
}

TEST(Interpreter, ActivationsStartPoisoned) {
  const auto out =
      run_one("graph g buffer %x: f32[2] %y: f32[2] = pointwise { %0 = load %x store %0 } output %y", {});
  EXPECT_TRUE(std::isnan(out[0].values<float>()[0]));
}

// ---- gemm

TEST(Interpreter, GemmWithBatchTransposeEpilogueAndDynamicSizes) {
  const char* text = R"(graph g dim n in [0, 8]
input %x: f32[2, n, 3] input %w: f32[2, 3] input %bias: f32[2]
%y: f32[2, n, 2] = gemm %x, %w [2, 3, 2] strides [0, 1, 3] epilogue {
  %0 = acc f32
  %1 = load %bias[i2]
  %2 = add %0, %1
  return %2
}
output %y)";
  for (std::int64_t n : {0, 1, 4}) {
    std::vector<float> x(static_cast<std::size_t>(6 * n));
    std::iota(x.begin(), x.end(), 0.0F);
    const std::vector<float> w = {1, 2, 3, -1, 0, 2}, bias = {10, 20};
    std::vector<float> want;
    for (std::int64_t r = 0; r < 2 * n; ++r) {
      for (std::int64_t c = 0; c < 2; ++c) {
        float s = bias[static_cast<std::size_t>(c)];
        for (std::int64_t k = 0; k < 3; ++k)
          s += x[static_cast<std::size_t>(r * 3 + k)] * w[static_cast<std::size_t>(c * 3 + k)];
        want.push_back(s);
      }
    }
    EXPECT_EQ(run_one(text, {f32({2, n, 3}, x), f32({2, 3}, w), f32({2}, bias)})[0].values<float>(), want);
  }
}

TEST(Interpreter, IntegerGemmAccumulatesInI32) {
  const auto out =
      run_one("graph g input %a: u8[1, 2] input %b: i8[2, 1] %y: i32[1, 1] = gemm %a, %b output %y",
              {make_tensor<std::uint8_t>(DType::u8, {1, 2}, {255, 200}),
               make_tensor<std::int8_t>(DType::i8, {2, 1}, {-128, 127})});
  EXPECT_THAT(out[0].values<std::int32_t>(), ElementsAre(-255 * 128 + 200 * 127));
}

// ---- memory plans

TEST(Interpreter, OutputThatTakesOverBytesAtTheLastStepKeepsThem) {
  const Schedule s = parse_schedule(R"(graph g input %a: f32[4]
%m: f32[4] = pointwise { %0 = load %a %1 = mul %0, %0 store %1 }
%z: f32[4] = pointwise { %0 = load %m %1 = neg %0 store %1 }
output %z
plan arena 64 comm 0 live_peak 16 { $m: arena 0 bytes 16 steps 0..1 $z: arena 0 bytes 16 steps 1..1 })");
  const std::vector<std::vector<Tensor>> inputs = {{f32({4}, {1, 2, 3, 4})}};
  EXPECT_EQ(run(s, inputs, {.use_plan = true}).outputs, run(s, inputs).outputs);
}

// ---- regions and extern kernels

TEST(Interpreter, CallBranchAndRepeat) {
  const char* text = R"(graph g
input %x: f32[2] input %flag: bool[]
%d: f32[2] = branch (%flag, %x) {
  %neg: f32[2] = call (%x) {
    %f: f32[2] = pointwise { %0 = load %x %1 = neg %0 store %1 }
    yield %f
  }
  yield %neg
} else {
  yield %x
}
%d.1 mutates %d = repeat 3 (%d) {
  %d.2 mutates %d = pointwise { %0 = load %d %1 = add %0, %0 store %1 }
  yield %d.2
}
output %d.1)";
  EXPECT_THAT(run_one(text, {f32({2}, {1, 2}), boolean({}, {1})})[0].values<float>(), ElementsAre(-8, -16));
  EXPECT_THAT(run_one(text, {f32({2}, {1, 2}), boolean({}, {0})})[0].values<float>(), ElementsAre(8, 16));
}

TEST(Interpreter, AWhileRunsAsLongAsItsConditionIsTrue) {
  const char* text = R"(graph g
input %x: f32[2] input %limit: f32[]
%go: bool[] = pointwise { %0 = load %x[0] %1 = load %limit %2 = lt %0, %1 store %2 }
%y: f32[2] = pointwise { %0 = load %x store %0 }
%go.1 mutates %go, %y.1 mutates %y = while (%go, %y, %limit) {
  %y.2 mutates %y = pointwise { %0 = load %y %1 = add %0, %0 store %1 }
  %again: bool[] = pointwise { %0 = load %y.2[0] %1 = load %limit %2 = lt %0, %1 store %2 }
  yield %again, %y.2
}
output %y.1)";
  const auto run_to = [&](float limit) {
    return run_one(text, {f32({2}, {1, 3}), f32({}, {limit})})[0].values<float>();
  };
  EXPECT_THAT(run_to(0), ElementsAre(1, 3));
  EXPECT_THAT(run_to(2), ElementsAre(2, 6));
  EXPECT_THAT(run_to(9), ElementsAre(16, 48));
}

TEST(Interpreter, ExternKernelsAreFunctionsOfTheCallerOrOpaque) {
  const char* text = "graph g input %x: f32[2] %y: f32[2] = extern \"twice\" reads(%x) output %y";
  const auto twice = [](ExternCall& c) {
    std::vector<float> v = c.reads[0].values<float>();
    for (float& f : v) f *= 2;
    c.writes[0] = make_tensor(DType::f32, c.writes[0].sizes, v);
  };
  EXPECT_THAT(run_one(text, {f32({2}, {1, 2})}, {.externs = {{"twice", twice}}})[0].values<float>(),
              ElementsAre(2, 4));
  const InterpreterOptions opaque{.externs = {{"", opaque_kernel}}};
  EXPECT_EQ(run_one(text, {f32({2}, {1, 2})}, opaque), run_one(text, {f32({2}, {1, 2})}, opaque));
  EXPECT_NE(run_one(text, {f32({2}, {1, 2})}, opaque), run_one(text, {f32({2}, {1, 3})}, opaque));
  expect_user_error(703, "'twice'", [&] { run_one(text, {f32({2}, {1, 2})}); });
}

// ---- what users do wrong

TEST(InterpreterErrors, InputsDimensionsAndGuards) {
  const char* text =
      "graph g dim n in [2, 4] dim m in [0, 9] guard n == m from \"Add_1\" input %x: f32[n, m + 1] as \"in\" "
      "output %x";
  run_one(text, {f32({2, 3}, std::vector<float>(6))});
  expect_user_error(701, "got 2 inputs", [&] { run_one(text, {f32({2}, {1, 2}), f32({2}, {1, 2})}); });
  expect_user_error(701, "'in'", [&] { run_one(text, {i64({2, 3}, std::vector<std::int64_t>(6))}); });
  expect_user_error(701, "rank 1, expected 2", [&] { run_one(text, {f32({2}, {1, 2})}); });
  expect_user_error(302, "'n' is 5", [&] { run_one(text, {f32({5, 3}, std::vector<float>(15))}); });
  expect_user_error(303, "Add_1", [&] { run_one(text, {f32({2, 4}, std::vector<float>(8))}); });
  expect_user_error(701, "sizes [3], expected [4]", [&] {
    run_one("graph g input %x: f32[4]", {f32({3}, {1, 2, 3})});
  });
  expect_user_error(302, "not determined",
                    [&] { run_one("graph g dim n in [1, 2] %y: f32[n] = extern \"f\" output %y", {}); });
}

TEST(InterpreterErrors, ConstantsWithoutData) {
  expect_user_error(702, "'c'", [] {
    run_one(
        "graph g constant %c: f32[2] = elided(0x1) %y: f32[2] = pointwise { %0 = load %c store %0 } output "
        "%y",
        {});
  });
}

TEST(InterpreterErrors, IntegerDivisionByZero) {
  expect_user_error(711, "divided by zero", [] {
    run_one(
        "graph g input %x: i64[1] %y: i64[1] = pointwise { %0 = load %x %1 = div %0, %0 store %1 } output %y",
        {i64({1}, {0})});
  });
}

}  // namespace
}  // namespace braid::ir
