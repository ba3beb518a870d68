// Convolutions, pools and recurrent layers: text, types, and the interpreter against sums written out here.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/interpreter_runs.h"
#include "tests/support/random.h"
#include "tests/support/random_windows.h"

namespace braid::ir {
namespace {

TEST(WindowKernels, AreReadBackFromTheirText) {
  for (int k = 0; k < test::random_cases(200); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Schedule& s : {test::random_windows(seed).schedule, test::random_recurrence(seed).schedule}) {
      verify(s);
      const std::string text = print(s);
      ASSERT_EQ(print(parse_schedule(text)), text);
    }
  }
}

// One image with channels first, as ONNX defines it, in integers that are exact.
struct Case {
  std::int64_t n, groups, c, m, h, w, kh, kw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, out_h,
      out_w;
};

std::vector<float> whole_numbers(std::int64_t count, std::mt19937_64& random) {
  std::vector<float> out;
  for (std::int64_t k = 0; k < count; ++k)
    out.push_back(static_cast<float>(static_cast<int>(random() % 9) - 4));
  return out;
}

TEST(Convolutions, AreTheSumsOfTheirDefinition) {
  std::mt19937_64 random(test::first_seed());
  const auto from = [&](int low, int high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int k = 0; k < test::random_cases(200); ++k) {
    Case t{};
    t.n = from(1, 2), t.groups = from(1, 3), t.c = from(1, 3), t.m = from(1, 3), t.h = from(1, 6),
    t.w = from(1, 6);
    t.kh = from(1, 3), t.kw = from(1, 3), t.stride_h = from(1, 3), t.stride_w = from(1, 2),
    t.dilation_h = from(1, 2);
    t.dilation_w = from(1, 2), t.pad_h = from(0, 3), t.pad_w = from(0, 3), t.out_h = from(1, 7),
    t.out_w = from(1, 7);
    const bool transposed = k % 2 == 1;
    const std::int64_t channels = t.groups * t.c, filters = t.groups * t.m;
    // The weights of Conv are [filters, c, kh, kw], those of ConvTranspose [channels, m, kh, kw].
    const std::int64_t outer = transposed ? channels : filters, inner = transposed ? t.m : t.c;
    const std::int64_t taps = t.kh * t.kw;
    const std::string b_strides =
        transposed ? fmt::format("[{}, {}, 1, {}, {}]", t.c * inner * taps, t.kw, inner * taps, taps)
                   : fmt::format("[{}, {}, 1, {}, {}]", t.m * inner * taps, t.kw, taps, inner * taps);
    const std::string text = fmt::format(
        "graph main input %x: f32[{}, {}, {}, {}] input %w: f32[{}, {}, {}, {}]\n"
        "%y: f32[{}, {}, {}, {}] = convolution {} %x [{}, {}, {}, {}] strides [{}, {}, 1, {}], %w [{}, {}, "
        "{}, {}, {}] "
        "strides {} stride [{}, {}] dilation [{}, {}] pad [{}, {}] into %y [{}, {}, {}, {}] strides [{}, {}, "
        "1, {}]\n"
        "output %y",
        t.n, channels, t.h, t.w, outer, inner, t.kh, t.kw, t.n, filters, t.out_h, t.out_w,
        transposed ? "transposed" : "", t.n, t.h, t.w, channels, channels * t.h * t.w, t.w, t.h * t.w,
        t.groups, t.kh, t.kw, t.c, t.m, b_strides, t.stride_h, t.stride_w, t.dilation_h, t.dilation_w,
        t.pad_h, t.pad_w, t.n, t.out_h, t.out_w, filters, filters * t.out_h * t.out_w, t.out_w,
        t.out_h * t.out_w);
    const std::vector<float> x = whole_numbers(t.n * channels * t.h * t.w, random),
                             w = whole_numbers(outer * inner * taps, random);
    std::vector<float> y(static_cast<std::size_t>(t.n * filters * t.out_h * t.out_w), 0);
    // Every product of an element of x with a weight is added to its element of y, if there is one.
    for (std::int64_t n = 0; n < t.n; ++n)
      for (std::int64_t g = 0; g < t.groups; ++g)
        for (std::int64_t c = 0; c < t.c; ++c)
          for (std::int64_t m = 0; m < t.m; ++m)
            for (std::int64_t i = 0; i < t.h; ++i)
              for (std::int64_t j = 0; j < t.w; ++j)
                for (std::int64_t a = 0; a < t.kh; ++a)
                  for (std::int64_t b = 0; b < t.kw; ++b) {
                    const std::int64_t channel = g * t.c + c, filter = g * t.m + m;
                    std::int64_t p, q;
                    if (transposed) {
                      p = i * t.stride_h + a * t.dilation_h - t.pad_h;
                      q = j * t.stride_w + b * t.dilation_w - t.pad_w;
                    } else {
                      p = i + t.pad_h - a * t.dilation_h;
                      q = j + t.pad_w - b * t.dilation_w;
                      if (p % t.stride_h != 0 || q % t.stride_w != 0) continue;
                      p /= t.stride_h, q /= t.stride_w;
                    }
                    if (p < 0 || p >= t.out_h || q < 0 || q >= t.out_w) continue;
                    const std::int64_t weight = transposed ? (channel * t.m + m) * taps + a * t.kw + b
                                                           : (filter * t.c + c) * taps + a * t.kw + b;
                    y[static_cast<std::size_t>(((n * filters + filter) * t.out_h + p) * t.out_w + q)] +=
                        x[static_cast<std::size_t>(((n * channels + channel) * t.h + i) * t.w + j)] *
                        w[static_cast<std::size_t>(weight)];
                  }
    const Tensor got =
        run_one(text, {f32({t.n, channels, t.h, t.w}, x), f32({outer, inner, t.kh, t.kw}, w)})[0];
    ASSERT_EQ(got, f32({t.n, filters, t.out_h, t.out_w}, y)) << "case " << k << "\n" << text;
  }
}

TEST(Pools, SeeWhatIsInsideOnly) {
  const auto pool = [](const std::string& kind, const std::string& type) {
    return "graph main input %x: f32[1, 3, 4, 1]\n%y: " + type + "[1, 2, 3, 1] = pool " + kind +
           " %x window [2, 2] stride [2, 1] pad [1, 0]\noutput %y";
  };
  // -1 -2 -3 -4 / 5 6 7 8 / 9 10 11 12; the first windows cover the first row only.
  const Tensor x = f32({1, 3, 4, 1}, {-1, -2, -3, -4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(run_one(pool("max", "f32"), {x})[0], f32({1, 2, 3, 1}, {-1, -2, -3, 10, 11, 12}));
  EXPECT_EQ(run_one(pool("arg_max", "i64"), {x})[0], i64({1, 2, 3, 1}, {0, 1, 2, 9, 10, 11}));
  EXPECT_EQ(run_one(pool("sum", "f32"), {x})[0], f32({1, 2, 3, 1}, {-3, -5, -7, 30, 34, 38}));
  EXPECT_EQ(run_one(pool("average", "f32"), {x})[0], f32({1, 2, 3, 1}, {-1.5, -2.5, -3.5, 7.5, 8.5, 9.5}));
}

TEST(Pools, TheFirstOfEqualElementsIsTheMaximum) {
  const std::string text =
      "graph main input %x: f32[1, 2, 3, 1]\n%y: i64[1, 1, 1, 1] = pool arg_max %x window [2, 3]\noutput %y";
  EXPECT_EQ(run_one(text, {f32({1, 2, 3, 1}, {1, 7, 2, 7, 7, 0})})[0], i64({1, 1, 1, 1}, {1}));
  const float nan = std::nanf("");
  EXPECT_EQ(run_one(text, {f32({1, 2, 3, 1}, {1, 7, nan, 8, nan, 0})})[0], i64({1, 1, 1, 1}, {2}));
}

// Two steps of an lstm of one unit whose activations are all the identity: sums that fit on a page.
TEST(Recurrences, StepAsTheirDefinitionSays) {
  const std::string identity = " activation { %0 = acc f32 return %0 }";
  const std::string text =
      "graph main input %g: f32[2, 1, 4] input %r: f32[1, 4] input %h: f32[1, 1] input %c: f32[1, 1] input "
      "%p: f32[3, 1]\n"
      "%y: f32[2, 1, 1], %last: f32[1, 1], %cell: f32[1, 1], %work: f32[1, 4] = recurrence lstm %g, %r, %h "
      "cell_state %c "
      "peepholes %p" +
      identity + identity + identity + "\noutput %y output %last output %cell";
  // i o f c; r = 1 2 3 4; h = 1, c = 2; peepholes 1 (i), 2 (o), 3 (f).
  // t 0: i = 1+1+2 = 4, f = 3+3+6 = 12, candidate 4+4 = 8, cell = 24+32 = 56, o = 2+2+112 = 116, h = 6496.
  const auto out = run_one(text, {f32({2, 1, 4}, {1, 2, 3, 4, 0, 0, 0, 0}), f32({1, 4}, {1, 2, 3, 4}),
                                  f32({1, 1}, {1}), f32({1, 1}, {2}), f32({3, 1}, {1, 2, 3})});
  const double h = 6496, c = 56;
  const double i = h + c, f = 3 * h + 3 * c, cell = f * c + i * 4 * h, o = 2 * h + 2 * cell;
  EXPECT_EQ(out[0], f32({2, 1, 1}, {6496, static_cast<float>(o * cell)}));
  EXPECT_EQ(out[2], f32({1, 1}, {static_cast<float>(cell)}));
}

TEST(Recurrences, RowsEndAtTheirLength) {
  const std::string identity = " activation { %0 = acc f32 return %0 }";
  const auto text = [&](const std::string& direction) {
    return "graph main input %g: f32[3, 2, 1] input %r: f32[1, 1] input %h: f32[2, 1] input %l: i32[2]\n"
           "%y: f32[3, 2, 1], %last: f32[2, 1], %work: f32[2, 1] = recurrence rnn " +
           direction + " %g, %r, %h lengths %l" + identity + "\noutput %y output %last";
  };
  const std::vector<Tensor> inputs = {f32({3, 2, 1}, {1, 2, 3, 4, 5, 6}), f32({1, 1}, {1}),
                                      f32({2, 1}, {10, 20}),
                                      make_tensor(DType::i32, {2}, std::vector<std::int32_t>{2, 0})};
  const auto forward = run_one(text(""), inputs);
  EXPECT_EQ(forward[0], f32({3, 2, 1}, {11, 0, 14, 0, 0, 0}));
  EXPECT_EQ(forward[1], f32({2, 1}, {14, 20}));
  const auto backward = run_one(text("reverse"), inputs);
  EXPECT_EQ(backward[0], f32({3, 2, 1}, {14, 0, 13, 0, 0, 0}));
  EXPECT_EQ(backward[1], f32({2, 1}, {14, 20}));
  std::vector<Tensor> wrong = inputs;
  wrong[3] = make_tensor(DType::i32, {2}, std::vector<std::int32_t>{2, 4});
  expect_user_error(711, "index 4 is out of range [0, 4)", [&] { run_one(text(""), wrong); });
}

TEST(WindowKernels, WhatDoesNotFitIsRefused) {
  struct Refused {
    int code;
    const char* part;
    const char* text;
  };
  const Refused cases[] = {
      {512, "the weights read 1 groups of 2",
       "graph main input %x: f32[1, 4, 3] input %w: f32[1, 2, 2, 5] %y: f32[1, 3, 5] = convolution %x, %w "
       "output %y"},
      {512, "the result has 5 channels",
       "graph main input %x: f32[1, 4, 2] input %w: f32[1, 2, 2, 4] %y: f32[1, 3, 5] = convolution %x, %w "
       "output %y"},
      {512, "the batches of operand and result differ",
       "graph main input %x: f32[2, 4, 2] input %w: f32[1, 2, 2, 5] %y: f32[1, 3, 5] = convolution %x, %w "
       "output %y"},
      {511, "sizes that are not positive",
       "graph main input %x: f32[1, 4, 2] input %w: f32[1, 2, 2, 5] %y: f32[1, 3, 5] = convolution %x, %w "
       "stride [0] "
       "output %y"},
      {505, "yields i64, not f32",
       "graph main input %x: f32[1, 4, 2] %y: f32[1, 3, 2] = pool arg_max %x window [2] output %y"},
      {512, "the channels of operand and result differ",
       "graph main input %x: f32[1, 4, 2] %y: f32[1, 3, 1] = pool max %x window [2] output %y"},
      {506, "got 2 numbers for 1 spatial dimensions",
       "graph main input %x: f32[1, 4, 2] %y: f32[1, 3, 2] = pool max %x window [2, 2] output %y"},
      {506, "rnn has 1 activations, got 0",
       "graph main input %g: f32[3, 2, 1] input %r: f32[1, 1] input %h: f32[2, 1] %y: f32[3, 2, 1], %l: "
       "f32[2, 1], %w: "
       "f32[2, 1] = recurrence rnn %g, %r, %h output %y"},
      {512, "the weights must have sizes [1, 3]",
       "graph main input %g: f32[3, 2, 3] input %r: f32[1, 1] input %h: f32[2, 1] %y: f32[3, 2, 1], %l: "
       "f32[2, 1], %w: "
       "f32[2, 3] = recurrence gru %g, %r, %h output %y"},
  };
  for (const Refused& c : cases) expect_user_error(c.code, c.part, [&] { parse_schedule(c.text); });
}

}  // namespace
}  // namespace braid::ir
