// Convolutions with constant weights beside sums in double: where the library may use Winograd's algorithm
// (3x3 windows, 16 and more channels and filters), and where there are kernels of our own (one tap,
// depthwise, taps of channels-last images).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/tap_convolution.h"
#include "runtime/tile_kernels.h"
#include "runtime/window_kernels.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

// Channels-last, as a slice of wider rows if `slack` is not 0, or channels-first.
void lay_out(bool channels_last, int64_t channels, int64_t slack,
             const std::array<int64_t, kMaxSpatial>& sizes, int64_t& batch, int64_t& channel,
             std::array<int64_t, kMaxSpatial>& spatial) {
  const int64_t pixel = channels_last ? channels + slack : 1;
  channel = channels_last ? 1 : sizes[0] * sizes[1];
  spatial = {sizes[1] * pixel, pixel, 0};
  batch = sizes[0] * sizes[1] * (channels + (channels_last ? slack : 0));
}

// Filters, channels and taps in any order, or a slice of more channels.
void lay_out_weights(Random& random, ConvolutionShape& s) {
  std::array<int64_t*, 4> strides = {&s.b_filter, &s.b_channel, &s.b_tap[0], &s.b_tap[1]};
  std::array<int64_t, 4> sizes = {s.filters, s.channels, s.taps[0], s.taps[1]};
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  if (random() % 4 == 0) sizes[1] += between(random, 1, 8);
  int64_t next = 1;
  for (std::size_t k = 4; k-- > 0;) {
    *strides[order[k]] = next;
    next *= sizes[order[k]];
  }
  s.b_group = next;
}

ConvolutionShape random_shape(Random& random, bool depth) {
  ConvolutionShape s;
  s.spatial = 2;
  s.batch = between(random, 1, 2);
  s.channels = between(random, 12, depth ? 96 : 40);
  s.filters = between(random, 12, depth ? 96 : 40);
  for (int d = 0; d < 2; ++d) {
    s.taps[d] = 3;
    s.pad[d] = between(random, 0, 1);
    const int64_t after = between(random, 0, 1);
    s.in[d] = between(random, 6, 20);
    s.stride[d] = random() % 8 == 0 ? 2 : 1;
    s.dilation[d] = random() % 8 == 0 ? 2 : 1;
    const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
    s.out[d] = (s.in[d] + s.pad[d] + after - extent) / s.stride[d] + 1;
  }
  const bool last = random() % 4 != 0;
  const int64_t slack = random() % 3 == 0 ? between(random, 1, 40) : 0;
  lay_out(last, s.channels, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
  lay_out(last, s.filters, slack, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

// One tap, as a slice of wider images or not, or with gaps between rows, which our kernels leave to the
// library.
ConvolutionShape random_pointwise(Random& random) {
  ConvolutionShape s;
  s.spatial = 2;
  s.batch = between(random, 1, 3);
  s.channels = between(random, 1, random() % 4 == 0 ? 300 : 40);
  s.filters = between(random, 1, random() % 4 == 0 ? 300 : 80);
  for (int d = 0; d < 2; ++d) s.in[d] = s.out[d] = random() % 4 == 0 ? 1 : between(random, 1, 17);
  const int64_t slack = random() % 3 == 0 ? between(random, 1, 40) : 0;
  lay_out(true, s.channels, random() % 3 == 0 ? between(random, 1, 9) : 0, s.in, s.a_batch, s.a_channel,
          s.a_spatial);
  lay_out(true, s.filters, slack, s.out, s.out_batch, s.out_channel, s.out_spatial);
  if (random() % 8 == 0) s.a_batch += between(random, 1, 30);
  if (random() % 8 == 0) s.stride[random() % 2] = 2;  // half of the result sees nothing but padding
  lay_out_weights(random, s);
  return s;
}

// Draws the size of the result along a dimension, with padding at the end that makes a window fit.
void draw_out(Random& random, ConvolutionShape& s, int d) {
  const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
  const int64_t after = std::max(extent - s.in[d] - s.pad[d], between(random, 0, extent));
  s.out[d] = (s.in[d] + s.pad[d] + after - extent) / s.stride[d] + 1;
}

// Depthwise, or with some channels and filters per group, with pads up to the extent of the taps.
ConvolutionShape random_groups(Random& random, bool depthwise) {
  ConvolutionShape s;
  s.spatial = 2;
  s.batch = between(random, 1, 2);
  s.groups = between(random, depthwise ? 2 : 1, !depthwise ? 3 : random() % 4 == 0 ? 200 : 50);
  s.channels = depthwise ? 1 : between(random, 1, 20);
  s.filters = depthwise ? 1 : between(random, 1, 20);
  for (int d = 0; d < 2; ++d) {
    s.taps[d] = between(random, 1, 6);
    s.stride[d] = between(random, 1, 3);
    s.dilation[d] = between(random, 1, 3);
    const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
    s.in[d] = between(random, 1, 24);
    s.pad[d] = between(random, 0, extent);
    draw_out(random, s, d);
  }
  const int64_t slack = random() % 3 == 0 ? between(random, 1, 40) : 0;
  lay_out(true, s.groups * s.channels, random() % 3 == 0 ? between(random, 1, 9) : 0, s.in, s.a_batch,
          s.a_channel, s.a_spatial);
  lay_out(true, s.groups * s.filters, slack, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

// Depthwise, of one dimension; elements or channels of the input are adjacent.
ConvolutionShape random_series(Random& random) {
  ConvolutionShape s = random_groups(random, true);
  s.spatial = 1;
  s.in[0] = between(random, 1, 300);
  s.in[1] = s.out[1] = s.taps[1] = s.stride[1] = s.dilation[1] = 1;
  s.pad[1] = 0;
  const int64_t extent = (s.taps[0] - 1) * s.dilation[0] + 1;
  s.pad[0] = between(random, 0, extent);
  draw_out(random, s, 0);
  lay_out(random() % 2 == 0, s.groups, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
  if (random() % 4 == 0) s.a_batch += between(random, 1, 30);
  lay_out(random() % 4 != 0, s.groups, 0, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

// Any taps, transposed or not, of images or series; more channels than a part of the sums has at times.
ConvolutionShape random_taps(Random& random) {
  ConvolutionShape s = random_groups(random, false);
  const bool deep = random() % 16 == 0;
  s.channels = deep ? between(random, 700, 1600) : between(random, 1, 40);
  if (deep) s.groups = s.in[0] = s.taps[1] = s.pad[1] = 1;
  s.filters = random() % 4 == 0 ? between(random, 8, 200) : between(random, 8, 40);
  s.transposed = random() % 2 == 0;
  if (random() % 3 == 0) s.spatial = 1;
  for (int d = 0; d < 2; ++d) {
    if (d >= s.spatial) {
      s.in[d] = s.out[d] = s.taps[d] = s.stride[d] = s.dilation[d] = 1;
      s.pad[d] = 0;
      continue;
    }
    const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
    if (!s.transposed && random() % 8 == 0) {  // nothing but padding, or an image whose edge is cut off
      const bool nothing = random() % 2 == 0;
      if (nothing) s.in[d] = 0;
      s.pad[d] = nothing ? extent : -between(random, 0, std::min<int64_t>(s.in[d] - 1, 2));
      const int64_t after = std::max<int64_t>(extent - s.in[d] - s.pad[d], 0);
      s.out[d] = (s.in[d] + s.pad[d] + after - extent) / s.stride[d] + 1;
    } else if (s.transposed) {
      const int64_t full = (s.in[d] - 1) * s.stride[d] + extent;
      s.pad[d] = between(random, 0, (full - 1) / 2);
      s.out[d] = full - s.pad[d] - between(random, 0, (full - 1) / 2) + between(random, 0, 2);
    } else {
      draw_out(random, s, d);
    }
  }
  const int64_t slack = random() % 3 == 0 ? between(random, 1, 40) : 0;
  lay_out(true, s.groups * s.channels, random() % 3 == 0 ? between(random, 1, 9) : 0, s.in, s.a_batch,
          s.a_channel, s.a_spatial);
  lay_out(true, s.groups * s.filters, slack, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

// Transposed, for several threads; each filter lies in a plane, which our kernels do not take.
ConvolutionShape random_planes(Random& random) {
  ConvolutionShape s = random_groups(random, false);
  s.transposed = true;
  s.groups = 1;
  s.channels = between(random, 8, 24);
  s.filters = between(random, 2, 12);
  for (int d = 0; d < 2; ++d) {
    s.in[d] = between(random, 12, 30);
    s.stride[d] = between(random, 1, 4);
    const int64_t full = (s.in[d] - 1) * s.stride[d] + (s.taps[d] - 1) * s.dilation[d] + 1;
    s.pad[d] = between(random, 0, s.taps[d] - 1);
    s.out[d] = full - s.pad[d] - between(random, 0, 3) + between(random, 0, 2);
  }
  lay_out(random() % 2 == 0, s.channels, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
  lay_out(false, s.filters, 0, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

constexpr PostOp kFunctions[] = {PostOp::relu,  PostOp::gelu_tanh,  PostOp::gelu_erf,
                                 PostOp::tanh,  PostOp::sigmoid,    PostOp::swish,
                                 PostOp::relu6, PostOp::hard_swish, PostOp::scale};

Epilogue random_epilogue(Random& random) {
  Epilogue e;
  int n = 0;
  if (random() % 4 != 0) e.ops[n++] = PostOp::add_vector;
  switch (random() % 6) {
    case 0:
      break;
    case 1:
      e.ops[n++] = random() % 2 == 0 ? PostOp::mul_vector : PostOp::add_vector;
      break;
    case 2:
      e.ops[n++] = PostOp::add_matrix;
      if (random() % 2 == 0) e.ops[n++] = kFunctions[random() % std::size(kFunctions)];
      break;
    default:
      e.ops[n++] = kFunctions[random() % std::size(kFunctions)];
  }
  e.scale = 0.25f;
  return e;
}

double apply(PostOp op, double x, double scale, double operand) {
  switch (op) {
    case PostOp::none:
      return x;
    case PostOp::scale:
      return scale * x;
    case PostOp::mul_vector:
      return x * operand;
    case PostOp::add_vector:
    case PostOp::add_matrix:
      return x + operand;
    case PostOp::relu:
      return std::max(x, 0.0);
    case PostOp::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PostOp::gelu_erf:
      return 0.5 * x * (1 + std::erf(x * 0.7071067811865476));
    case PostOp::tanh:
      return std::tanh(x);
    case PostOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOp::swish:
      return x / (1 + std::exp(-x));
    case PostOp::relu6:
      return std::min(std::max(x, 0.0), 6.0);
    case PostOp::hard_swish:
      return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
  }
  return x;
}

// The sum of one element in double.
double sum_at(const ConvolutionShape& s, const std::vector<float>& a, const std::vector<float>& b, int64_t n,
              int64_t f, int64_t y, int64_t x) {
  const int64_t group = f / s.filters;
  double sum = 0;
  for (int64_t ty = 0; ty < s.taps[0]; ++ty) {
    for (int64_t tx = 0; tx < s.taps[1]; ++tx) {
      const std::array<int64_t, 2> at = {y, x}, tap = {ty, tx};
      std::array<int64_t, 2> in;
      bool inside = true;
      for (std::size_t d = 0; d < 2; ++d) {
        in[d] = s.transposed ? at[d] + s.pad[d] - tap[d] * s.dilation[d]
                             : at[d] * s.stride[d] + tap[d] * s.dilation[d] - s.pad[d];
        if (s.transposed) inside = inside && in[d] % s.stride[d] == 0;
        if (s.transposed) in[d] /= s.stride[d];
        inside = inside && in[d] >= 0 && in[d] < s.in[d];
      }
      if (!inside) continue;
      const auto [iy, ix] = in;
      for (int64_t c = 0; c < s.channels; ++c) {
        sum +=
            static_cast<double>(a[static_cast<size_t>(n * s.a_batch + (group * s.channels + c) * s.a_channel +
                                                      iy * s.a_spatial[0] + ix * s.a_spatial[1])]) *
            b[static_cast<size_t>(group * s.b_group + f % s.filters * s.b_filter + c * s.b_channel +
                                  ty * s.b_tap[0] + tx * s.b_tap[1])];
      }
    }
  }
  return sum;
}

// Values that end, or begin, where memory does: reading beyond them ends the test.
class Guarded {
 public:
  Guarded(Random& random, const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float), inside = (bytes + kPage - 1) / kPage * kPage;
    size_ = inside + 2 * kPage;
    memory_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + kPage, inside, PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("no guarded memory");
    std::byte* const first = memory_ + kPage + (random() % 2 == 0 ? 0 : inside - bytes);
    if (bytes > 0) std::memcpy(first, values.data(), bytes);
    values_ = reinterpret_cast<const float*>(first);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(memory_, size_); }
  const float* get() const { return values_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::byte* memory_;
  std::size_t size_ = 0;
  const float* values_ = nullptr;
};

// Returns the largest difference from the kernel's result, relative to the largest sum. Elements of the image
// that no window covers are NaN, so that reads beyond the channels show. Elements around the result must keep
// their value.
double difference(const ConvolutionShape& s, Random& random, std::string* name) {
  constexpr float kUntouched = 1e30f;
  const int64_t filters = s.groups * s.filters;
  std::vector<float> a(static_cast<size_t>(s.batch * s.a_batch), NAN);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t y = 0; y < s.in[0]; ++y) {
      for (int64_t x = 0; x < s.in[1]; ++x) {
        for (int64_t c = 0; c < s.groups * s.channels; ++c)
          a[static_cast<size_t>(n * s.a_batch + y * s.a_spatial[0] + x * s.a_spatial[1] + c * s.a_channel)] =
              random_floats(random, 1)[0];
      }
    }
  }
  const std::vector<float> b = random_floats(random, s.groups * s.b_group),
                           matrix = random_floats(random, s.batch * s.out_batch);
  const Guarded image(random, a), added(random, matrix);
  std::vector<float> vectors[kMaxPostOps];
  std::vector<std::unique_ptr<Guarded>> operands;
  std::vector<float> out(static_cast<size_t>(s.batch * s.out_batch), kUntouched);
  WindowArgs args;
  args.a = image.get();
  args.b = b.data();
  args.out = out.data();
  for (int p = 0; p < kMaxPostOps; ++p) {
    vectors[p] = random_floats(random, filters);
    operands.push_back(std::make_unique<Guarded>(random, vectors[p]));
    args.vectors[p] = s.epilogue.ops[p] == PostOp::add_matrix ? added.get() : operands.back()->get();
  }
  WindowLibrary library;
  const WindowKernel* kernel = library.kernel(s, b.data());
  *name = kernel->name();
  kernel->run(args);
  double worst = 0, largest = 1;  // as operands of the epilogue
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t f = 0; f < filters; ++f) {
      for (int64_t y = 0; y < s.out[0]; ++y) {
        for (int64_t x = 0; x < s.out[1]; ++x) {
          double sum = sum_at(s, a, b, n, f, y, x);
          const auto at = static_cast<size_t>(n * s.out_batch + f * s.out_channel + y * s.out_spatial[0] +
                                              x * s.out_spatial[1]);
          largest = std::max(largest, std::abs(sum));
          for (int p = 0; p < kMaxPostOps; ++p) {
            const bool is_matrix = s.epilogue.ops[p] == PostOp::add_matrix;
            sum = apply(s.epilogue.ops[p], sum, s.epilogue.scale,
                        is_matrix ? matrix[at] : vectors[p][static_cast<size_t>(f)]);
          }
          if (std::isnan(out[at])) return INFINITY;
          worst = std::max(worst, std::abs(sum - out[at]));
          out[at] = kUntouched;
        }
      }
    }
  }
  const bool outside = std::any_of(out.begin(), out.end(), [](float x) { return x != kUntouched; });
  return outside ? INFINITY : worst / largest;
}

TEST(ConvolutionKernels, AgreeWithSumsInDouble) {
  const std::uint64_t first = test::first_seed();
  int winograd = 0;
  for (int k = 0; k < test::random_cases(40); ++k) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
    Random random(static_cast<unsigned>(seed));
    ConvolutionShape s = random_shape(random, random() % 4 == 0);
    s.epilogue = random_epilogue(random);
    std::string name;
    const double error = difference(s, random, &name);
    winograd += name.find("wino") != std::string::npos;
    EXPECT_LE(error, 5e-6) << "BRAID_TEST_SEED=" << seed << ": " << name << ", " << s.channels << " to "
                           << s.filters << " channels";
  }
  RecordProperty("winograd", winograd);
}

// A stem: few channels, each of which lies in a plane, as images are given.
ConvolutionShape random_stem(Random& random) {
  ConvolutionShape s = random_groups(random, false);
  s.groups = 1;
  s.channels = between(random, 1, 4);
  s.filters = between(random, 8, 64);
  for (int d = 0; d < 2; ++d) {
    s.in[d] = between(random, 24, 60);
    draw_out(random, s, d);
  }
  lay_out(false, s.channels, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
  lay_out(true, s.filters, 0, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

constexpr std::int64_t kMostThreads = 3;

// Where the processor has what our own kernel needs, it must take some of the cases. `own` may be null.
template <class Shape>
void expect_agreement(const char* own, const Shape& shape_of) {
  const std::uint64_t first = test::first_seed();
  const int cases = test::random_cases(150);
  int ours = 0;
  for (int k = 0; k < cases; ++k) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k);
    Random random(static_cast<unsigned>(seed));
    ConvolutionShape s = shape_of(random);
    s.epilogue = random_epilogue(random);
    s.in[2] = s.out[2] = s.taps[2] = 0;  // unused, as generated programs leave it
    std::string name;
    const test::ComputeThreads threads_of_case(static_cast<int>(between(random, 1, kMostThreads)));
    const double error = difference(s, random, &name);
    ours += own != nullptr && name == own;
    EXPECT_LE(error, s.channels > 600 ? 1e-5 : 3e-6)
        << "BRAID_TEST_SEED=" << seed << ": " << name << ", " << s.groups << " x " << s.channels << " to "
        << s.filters << " channels, " << s.in[0] << " x " << s.in[1];
  }
  if (own != nullptr && tile_kernels() != nullptr) {
    EXPECT_GE(ours, cases / 6);
  }
}

TEST(PointwiseKernels, AgreeWithSumsInDouble) { expect_agreement("own pointwise", random_pointwise); }
TEST(DepthwiseKernels, AgreeWithSumsInDouble) {
  expect_agreement("own depthwise", [](Random& random) { return random_groups(random, true); });
}
TEST(SeriesKernels, AgreeWithSumsInDouble) { expect_agreement("own depthwise", random_series); }
TEST(TapKernels, AgreeWithSumsInDouble) { expect_agreement("own taps", random_taps); }
TEST(TransposedKernels, AgreeWithSumsInDouble) { expect_agreement(nullptr, random_planes); }
TEST(StemKernels, AgreeWithSumsInDouble) { expect_agreement(nullptr, random_stem); }
TEST(GroupedKernels, AgreeWithSumsInDouble) {
  expect_agreement(nullptr, [](Random& random) { return random_groups(random, false); });
}

// Fewer filters than our kernels take.
ConvolutionShape random_few_filters(Random& random) {
  ConvolutionShape s = random_stem(random);
  s.channels = between(random, 16, 40);
  s.filters = between(random, 1, 7);
  lay_out(true, s.channels, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
  lay_out(true, s.filters, 0, s.out, s.out_batch, s.out_channel, s.out_spatial);
  lay_out_weights(random, s);
  return s;
}

TEST(ConvolutionKernels, HaveTheSameBitsForEveryNumberOfThreads) {
  ConvolutionShape (*const kShapes[])(Random&) = {random_stem,
                                                  random_taps,
                                                  random_pointwise,
                                                  random_planes,
                                                  random_few_filters,
                                                  [](Random& random) { return random_shape(random, true); },
                                                  [](Random& random) { return random_groups(random, true); }};
  for (int k = 0; k < test::random_cases(100); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    Random random(static_cast<unsigned>(seed));
    ConvolutionShape s = kShapes[static_cast<size_t>(k) % std::size(kShapes)](random);
    s.epilogue = random_epilogue(random);
    if (random() % 2 == 0) s.epilogue.ops = {PostOp::add_vector, PostOp::add_matrix};
    s.in[2] = s.out[2] = s.taps[2] = 0;  // unused, as generated programs leave it
    const std::vector<float> a = random_floats(random, s.batch * s.a_batch),
                             b = random_floats(random, s.groups * s.b_group),
                             matrix = random_floats(random, s.batch * s.out_batch),
                             vector = random_floats(random, s.groups * s.filters);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::ComputeThreads scope(threads);
      WindowLibrary library;
      const WindowKernel* const kernel = library.kernel(s, b.data());
      std::vector<float> out(static_cast<size_t>(s.batch * s.out_batch));
      WindowArgs args;
      args.a = a.data();
      args.b = b.data();
      args.out = out.data();
      for (int p = 0; p < kMaxPostOps; ++p)
        args.vectors[p] = s.epilogue.ops[p] == PostOp::add_matrix ? matrix.data() : vector.data();
      kernel->run(args);
      if (first.empty()) first = out;
      ASSERT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0)
          << "BRAID_TEST_SEED=" << seed << ": " << kernel->name() << ", " << threads << " threads";
    }
  }
}

// One library computes images of several sizes with the same weights, which each of its kernels packs for
// itself.
TEST(ConvolutionKernels, OfOneLibraryShareWeightsOnlyInOneLayout) {
  Random random(1);
  ConvolutionShape s;
  s.spatial = 2;
  s.batch = 1;
  s.channels = s.filters = 20;
  s.taps = {3, 3};
  lay_out_weights(random, s);
  const std::vector<float> b = random_floats(random, s.b_group);
  WindowLibrary library;
  for (const int64_t size : {20, 5, 20, 6}) {
    s.in = s.out = {size, size};
    s.pad = {1, 1};
    lay_out(true, s.channels, 0, s.in, s.a_batch, s.a_channel, s.a_spatial);
    lay_out(true, s.filters, 0, s.out, s.out_batch, s.out_channel, s.out_spatial);
    const std::vector<float> a = random_floats(random, s.a_batch);
    std::vector<float> out(static_cast<size_t>(s.out_batch));
    WindowArgs args;
    args.a = a.data();
    args.b = b.data();
    args.out = out.data();
    library.kernel(s, b.data())->run(args);
    for (int64_t f = 0; f < s.filters; ++f) {
      for (int64_t y = 0; y < size; ++y)
        ASSERT_NEAR(out[static_cast<size_t>(f + y * s.out_spatial[0])], sum_at(s, a, b, 0, f, y, 0), 1e-4);
    }
  }
}

// Special values, every exponent, and densely where the functions change most.
std::vector<float> arguments() {
  std::vector<float> out = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.7f, -88.7f, 104.0f, -104.0f};
  for (int e = -126; e < 128; ++e) {
    for (int k = 0; k < 30; ++k) {
      out.push_back(std::ldexp(1.0f + static_cast<float>(k) / 30, e));
      out.push_back(-out.back());
    }
  }
  for (int k = -40000; k <= 40000; ++k) out.push_back(static_cast<float>(k) * 1e-3f);
  return out;
}

TEST(PointwiseKernels, ActivationsOfAllNumbers) {
  const std::vector<float> x = arguments();
  for (const auto& [constant, filters] : {std::pair(true, 1), {false, 1}, {true, 5}}) {
    for (PostOp op : kFunctions) {
      ConvolutionShape s;
      s.spatial = 1;
      s.batch = 1;
      s.in = s.out = {static_cast<int64_t>(x.size()), 1, 1};
      s.channels = 1;
      s.filters = filters;
      s.a_channel = s.b_filter = s.out_channel = 1;
      s.a_spatial = {1, 0, 0};
      s.out_spatial = {filters, 0, 0};
      s.epilogue.ops[0] = op;
      const std::vector<float> ones(static_cast<std::size_t>(filters), 1.0f);
      std::vector<float> out(x.size() * ones.size());
      WindowArgs args;
      args.a = x.data();
      args.b = ones.data();
      args.out = out.data();
      WindowLibrary().kernel(s, constant ? ones.data() : nullptr)->run(args);
      // Relative to the result, but for the sums within GELU, which lose digits where they are near 0.
      const bool sum = op == PostOp::gelu_tanh || op == PostOp::gelu_erf;
      for (std::size_t k = 0; k < out.size(); ++k) {
        const float argument = x[k / ones.size()];
        const double exact = apply(op, argument, s.epilogue.scale, 0);
        if (std::isnan(argument)) {
          EXPECT_TRUE(std::isnan(out[k])) << static_cast<int>(op) << constant;
        } else if (std::isfinite(exact)) {
          const double unit =
              sum ? std::max(std::abs(exact), std::min(std::abs(double{argument}), 1.0)) : std::abs(exact);
          ASSERT_NEAR(out[k], exact, unit * 3.6e-7 + 1e-36) << static_cast<int>(op) << " of " << argument;
        }
      }
    }
  }
}

}  // namespace
}  // namespace braid::rt
