// Pools and convolutions of small images in one to three dimensions beside plain sums in double: windows of
// one tap with gaps, images of one element, windows that exceed the image without its padding. The library
// does not take all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pool.h"
#include "runtime/window_kernels.h"
#include "tests/runtime/between.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

using Index = std::array<int64_t, kMaxSpatial>;

void draw_windows(Random& random, WindowShape& s) {
  s.spatial = static_cast<int>(between(random, 1, 3));
  s.batch = between(random, 1, 2);
  for (int d = 0; d < s.spatial; ++d) {
    s.in[d] = between(random, 1, 4);
    s.taps[d] = between(random, 1, 3);
    s.stride[d] = between(random, 1, 4);
    s.dilation[d] = between(random, 1, 3);
    const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
    s.pad[d] = between(random, 0, extent - 1);
    const int64_t after = std::max(extent - s.in[d] - s.pad[d], between(random, 0, extent - 1));
    s.out[d] = (s.in[d] + s.pad[d] + after - extent) / s.stride[d] + 1;
  }
}

// Row-major, channels first or last.
void lay_out(bool last, const WindowShape& s, const Index& sizes, int64_t channels, int64_t& batch,
             int64_t& channel, Index& spatial) {
  int64_t next = last ? channels : 1;
  for (int d = s.spatial - 1; d >= 0; --d) {
    spatial[d] = next;
    next *= sizes[d];
  }
  channel = last ? 1 : next;
  batch = last ? next : next * channels;
}

Index position(const WindowShape& s, int64_t index, const Index& sizes) {
  Index at = {};
  for (int d = s.spatial - 1; d >= 0; --d) {
    at[d] = index % sizes[d];
    index /= sizes[d];
  }
  return at;
}

int64_t count(const WindowShape& s, const Index& sizes) {
  int64_t product = 1;
  for (int d = 0; d < s.spatial; ++d) product *= sizes[d];
  return product;
}

int64_t offset(const WindowShape& s, const Index& at, const Index& strides) {
  int64_t sum = 0;
  for (int d = 0; d < s.spatial; ++d) sum += at[d] * strides[d];
  return sum;
}

// Calls f with the place of each element of the result, and with the number and place of each of its taps
// inside of the image.
template <class F>
void for_each_window(const WindowShape& s, const F& f) {
  for (int64_t o = 0; o < count(s, s.out); ++o) {
    const Index to = position(s, o, s.out);
    std::vector<std::pair<int64_t, int64_t>> taps;
    for (int64_t t = 0; t < count(s, s.taps); ++t) {
      const Index tap = position(s, t, s.taps);
      Index from = {};
      bool inside = true;
      for (int d = 0; d < s.spatial; ++d) {
        from[d] = to[d] * s.stride[d] - s.pad[d] + tap[d] * s.dilation[d];
        inside = inside && from[d] >= 0 && from[d] < s.in[d];
      }
      if (inside) taps.emplace_back(t, offset(s, from, s.a_spatial));
    }
    f(offset(s, to, s.out_spatial), taps);
  }
}

std::vector<float> values(Random& random, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return out;
}

template <class F>
void for_random_cases(const F& f) {
  const std::uint64_t first = test::first_seed();
  for (int k = 0; k < test::random_cases(400); ++k) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(static_cast<unsigned>(seed));
    f(random);
  }
}

// The result of a window over these elements.
double pooled(PoolFold kind, const std::vector<double>& elements) {
  double sum = kind == PoolFold::max ? -INFINITY : 0;
  for (const double x : elements) {
    if (kind != PoolFold::max) sum += x;
    if (kind == PoolFold::max && (x > sum || std::isnan(x))) sum = x;
  }
  return kind == PoolFold::average ? sum / static_cast<double>(elements.size()) : sum;
}

// Some rows are longer than vectors, and some windows lie outside entirely.
void draw_pool(Random& random, PoolShape& s) {
  draw_windows(random, s);
  const int last = s.spatial - 1;
  if (random() % 2 == 0) {
    s.in[last] = between(random, 0, 70);
    s.taps[last] = between(random, 1, random() % 2 == 0 ? 3 : 50);
    s.out[last] = between(random, 1, 70);
  }
  for (int d = 0; d < s.spatial; ++d) s.pad[d] += random() % 8 == 0 ? between(random, -2, 4) : 0;
  s.channels = between(random, 1, random() % 4 == 0 ? 40 : 3);
  s.kind = static_cast<PoolFold>(random() % 3);
}

TEST(SmallWindows, PoolsAgreeWithPlainSums) {
  for_random_cases([](Random& random) {
    PoolShape s;
    draw_pool(random, s);
    lay_out(random() % 2 == 0, s, s.in, s.channels, s.a_batch, s.a_channel, s.a_spatial);
    lay_out(random() % 2 == 0, s, s.out, s.channels, s.out_batch, s.out_channel, s.out_spatial);
    std::vector<float> a = values(random, s.batch * s.a_batch);
    if (!a.empty() && random() % 4 == 0) a[random() % a.size()] = NAN;
    std::vector<float> out(static_cast<size_t>(s.batch * s.out_batch), 12345);
    WindowArgs args;
    args.a = a.data();
    args.out = out.data();
    WindowLibrary library;
    library.kernel(s)->run(args);
    for (int64_t n = 0; n < s.batch * s.channels; ++n) {
      const int64_t in = n / s.channels * s.a_batch + n % s.channels * s.a_channel,
                    to = n / s.channels * s.out_batch + n % s.channels * s.out_channel;
      for_each_window(s, [&](int64_t at, const auto& taps) {
        std::vector<double> elements;
        for (const auto& [tap, from] : taps) elements.push_back(a[static_cast<size_t>(in + from)]);
        const double expected = pooled(s.kind, elements), got = out[static_cast<size_t>(to + at)];
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got)) << got;
        } else if (std::isinf(expected)) {
          EXPECT_EQ(got, expected);
        } else {
          EXPECT_NEAR(got, expected, 1e-5);
        }
      });
    }
  });
}

TEST(SmallWindows, PoolsHaveTheSameBitsForEveryNumberOfThreads) {
  Random random(7);
  for (const bool last : {false, true}) {
    PoolShape s;
    s.spatial = 2;
    s.batch = 2;
    s.in = {41, 37, 1};
    s.taps = {5, 3, 1};
    s.out = {20, 18, 1};
    s.stride = {2, 2, 1};
    s.pad = {1, 0, 0};
    s.channels = 30;
    s.kind = PoolFold::average;
    lay_out(last, s, s.in, s.channels, s.a_batch, s.a_channel, s.a_spatial);
    lay_out(last, s, s.out, s.channels, s.out_batch, s.out_channel, s.out_spatial);
    const std::vector<float> a = values(random, s.batch * s.a_batch);
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 5}) {
      std::vector<float>& out = results.emplace_back(static_cast<size_t>(s.batch * s.out_batch));
      WindowArgs args;
      args.a = a.data();
      args.out = out.data();
      pool_kernel(s, threads)->run(args);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(SmallWindows, ConvolutionsAgreeWithPlainSums) {
  for_random_cases([](Random& random) {
    ConvolutionShape s;
    draw_windows(random, s);
    s.groups = between(random, 1, 2);
    s.channels = between(random, 1, 3);
    s.filters = between(random, 1, 3);
    const bool last = random() % 2 == 0;
    lay_out(last, s, s.in, s.groups * s.channels, s.a_batch, s.a_channel, s.a_spatial);
    lay_out(last, s, s.out, s.groups * s.filters, s.out_batch, s.out_channel, s.out_spatial);
    lay_out(random() % 2 == 0, s, s.taps, s.channels, s.b_filter, s.b_channel, s.b_tap);
    s.b_group = s.filters * s.b_filter;
    const std::vector<float> a = values(random, s.batch * s.a_batch),
                             b = values(random, s.groups * s.b_group);
    std::vector<float> out(static_cast<size_t>(s.batch * s.out_batch), NAN);
    WindowArgs args;
    args.a = a.data();
    args.b = b.data();
    args.out = out.data();
    WindowLibrary library;
    const WindowKernel* const kernel = library.kernel(s, random() % 2 == 0 ? b.data() : nullptr);
    SCOPED_TRACE(kernel->name());
    kernel->run(args);
    for (int64_t n = 0; n < s.batch * s.groups * s.filters; ++n) {
      const int64_t image = n / (s.groups * s.filters), filter = n % (s.groups * s.filters),
                    group = filter / s.filters;
      for_each_window(s, [&](int64_t at, const auto& taps) {
        double sum = 0;
        for (const auto& [tap, from] : taps) {
          const int64_t weights = group * s.b_group + filter % s.filters * s.b_filter +
                                  offset(s, position(s, tap, s.taps), s.b_tap);
          for (int64_t c = 0; c < s.channels; ++c) {
            sum += static_cast<double>(a[static_cast<size_t>(
                       image * s.a_batch + (group * s.channels + c) * s.a_channel + from)]) *
                   b[static_cast<size_t>(weights + c * s.b_channel)];
          }
        }
        EXPECT_NEAR(out[static_cast<size_t>(image * s.out_batch + filter * s.out_channel + at)], sum, 1e-5);
      });
    }
  });
}

}  // namespace
}  // namespace braid::rt
