// Convolutions with constant weights beside sums in double, where the library may use Winograd's algorithm: 3x3 windows, 16 and
// more channels and filters.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/window_kernels.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

using Random = std::mt19937;

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<float> values(Random& random, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return out;
}

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
  std::array<int64_t, 4> sizes = {s.filters, s.channels, 3, 3};
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

constexpr PostOp kFunctions[] = {PostOp::relu,  PostOp::gelu_tanh,  PostOp::gelu_erf,
                                 PostOp::tanh,  PostOp::sigmoid,    PostOp::swish,
                                 PostOp::relu6, PostOp::hard_swish, PostOp::scale};

Epilogue random_epilogue(Random& random) {
  Epilogue e;
  int n = 0;
  if (random() % 4 != 0) e.ops[n++] = PostOp::add_vector;
  switch (random() % 5) {
    case 0:
      break;
    case 1:
      e.ops[n++] = PostOp::mul_vector;
      break;
    case 2:
      e.ops[n++] = PostOp::add_matrix;
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

// Largest difference from the kernel's result, relative to the largest sum.
double difference(const ConvolutionShape& s, Random& random, std::string* name) {
  const std::vector<float> a = values(random, s.batch * s.a_batch), b = values(random, s.b_group),
                           matrix = values(random, s.batch * s.out_batch);
  std::vector<float> vectors[kMaxPostOps];
  std::vector<float> out(static_cast<size_t>(s.batch * s.out_batch), 1e30f);
  WindowArgs args;
  args.a = a.data();
  args.b = b.data();
  args.out = out.data();
  for (int p = 0; p < kMaxPostOps; ++p) {
    vectors[p] = values(random, s.filters);
    args.vectors[p] = s.epilogue.ops[p] == PostOp::add_matrix ? matrix.data() : vectors[p].data();
  }
  WindowLibrary library;
  const WindowKernel* kernel = library.kernel(s, b.data());
  *name = kernel->name();
  kernel->run(args);
  double worst = 0, largest = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t f = 0; f < s.filters; ++f) {
      for (int64_t y = 0; y < s.out[0]; ++y) {
        for (int64_t x = 0; x < s.out[1]; ++x) {
          double sum = 0;
          for (int64_t ty = 0; ty < 3; ++ty) {
            for (int64_t tx = 0; tx < 3; ++tx) {
              const int64_t iy = y * s.stride[0] + ty * s.dilation[0] - s.pad[0],
                            ix = x * s.stride[1] + tx * s.dilation[1] - s.pad[1];
              if (iy < 0 || ix < 0 || iy >= s.in[0] || ix >= s.in[1]) continue;
              for (int64_t c = 0; c < s.channels; ++c) {
                sum += static_cast<double>(a[static_cast<size_t>(
                           n * s.a_batch + c * s.a_channel + iy * s.a_spatial[0] + ix * s.a_spatial[1])]) *
                       b[static_cast<size_t>(f * s.b_filter + c * s.b_channel + ty * s.b_tap[0] +
                                             tx * s.b_tap[1])];
              }
            }
          }
          const auto at = static_cast<size_t>(n * s.out_batch + f * s.out_channel + y * s.out_spatial[0] +
                                              x * s.out_spatial[1]);
          largest = std::max(largest, std::abs(sum));
          for (int p = 0; p < kMaxPostOps; ++p) {
            const bool is_matrix = s.epilogue.ops[p] == PostOp::add_matrix;
            sum = apply(s.epilogue.ops[p], sum, s.epilogue.scale,
                        is_matrix ? matrix[at] : vectors[p][static_cast<size_t>(f)]);
          }
          worst = std::max(worst, std::abs(sum - out[at]));
        }
      }
    }
  }
  return worst / largest;
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

}  // namespace
}  // namespace braid::rt
