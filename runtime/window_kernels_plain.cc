// Stands in for window_kernels_onednn.cc where oneDNN is not installed: plain loops, slow, for what we have no kernels for (window_kernels_own.h).
#include <omp.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "runtime/gemm_library.h"
#include "runtime/half_windows.h"
#include "runtime/integer_windows.h"
#include "runtime/kernel_support.h"
#include "runtime/window_kernels.h"
#include "runtime/window_kernels_own.h"

namespace braid::rt {
namespace {

using Position = std::array<int64_t, kMaxSpatial>;

// With extents of 1 in the unused dimensions.
template <class Shape>
Shape in_three_dimensions(Shape s) {
  for (int d = s.spatial; d < kMaxSpatial; ++d) s.in[d] = s.out[d] = s.taps[d] = 1;
  return s;
}

int64_t volume(const Position& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Position number `index` of a row-major box.
Position position(int64_t index, const Position& sizes) {
  Position at;
  for (int d = kMaxSpatial - 1; d >= 0; --d) {
    at[d] = index % sizes[d];
    index /= sizes[d];
  }
  return at;
}

int64_t offset(const Position& at, const std::array<int64_t, kMaxSpatial>& strides) {
  int64_t sum = 0;
  for (int d = 0; d < kMaxSpatial; ++d) sum += at[d] * strides[d];
  return sum;
}

// The element that a tap reads for an element of the result; false if there is none.
bool source(const WindowShape& s, bool transposed, const Position& out, const Position& tap, Position* in) {
  for (int d = 0; d < kMaxSpatial; ++d) {
    if (d >= s.spatial) {
      (*in)[d] = 0;
      continue;
    }
    int64_t at = transposed ? out[d] + s.pad[d] - tap[d] * s.dilation[d]
                            : out[d] * s.stride[d] - s.pad[d] + tap[d] * s.dilation[d];
    if (transposed) {
      if (at % s.stride[d] != 0) return false;
      at /= s.stride[d];
    }
    if (at < 0 || at >= s.in[d]) return false;
    (*in)[d] = at;
  }
  return true;
}

// Calls f(batch, position of the result) for all of them, in parallel.
template <class F>
void for_each_result(const WindowShape& s, int threads, const F& f) {
  const int64_t positions = volume(s.out);
  split(threads, s.batch * positions, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) f(k / positions, position(k % positions, s.out));
  });
}

class PlainConvolution final : public WindowKernel {
 public:
  PlainConvolution(const ConvolutionShape& shape, int threads)
      : s_(in_three_dimensions(shape)), threads_(threads) {
    element_.m = element_.n = element_.k = 1;
    element_.c_row = element_.c_col = 1;
    element_.epilogue = shape.epilogue;
  }
  void run(const WindowArgs& args) const override {
    for_each_result(s_, threads_, [&](int64_t n, const Position& at) { one_position(args, n, at); });
  }
  const char* name() const override { return "plain"; }

 private:
  void one_position(const WindowArgs& args, int64_t n, const Position& at) const {
    const auto* a = static_cast<const float*>(args.a) + n * s_.a_batch;
    const auto* b = static_cast<const float*>(args.b);
    const int64_t out = n * s_.out_batch + offset(at, s_.out_spatial);
    for (int64_t filter = 0; filter < s_.groups * s_.filters; ++filter) {
      const int64_t group = filter / s_.filters;
      float sum = 0;
      for (int64_t t = 0; t < volume(s_.taps); ++t) {
        const Position tap = position(t, s_.taps);
        Position in;
        if (!source(s_, s_.transposed, at, tap, &in)) continue;
        const float* x = a + offset(in, s_.a_spatial) + group * s_.channels * s_.a_channel;
        const float* w = b + group * s_.b_group + filter % s_.filters * s_.b_filter + offset(tap, s_.b_tap);
        for (int64_t c = 0; c < s_.channels; ++c) sum += x[c * s_.a_channel] * w[c * s_.b_channel];
      }
      const int64_t where = out + filter * s_.out_channel;
      auto* const result = static_cast<float*>(args.out) + where;
      GemmArgs finish;
      finish.c = result;
      for (int p = 0; p < kMaxPostOps; ++p) {
        if (args.vectors[p] == nullptr) continue;
        finish.vectors[p] = static_cast<const float*>(args.vectors[p]) +
                            (s_.epilogue.ops[p] == PostOp::add_matrix ? where : filter);
      }
      *result = sum;
      own_kernels().finish(element_, finish, 0, 0, 1);
    }
  }

  ConvolutionShape s_;
  int threads_;
  GemmShape element_;
};

class PlainPool final : public WindowKernel {
 public:
  PlainPool(const PoolShape& shape, int threads) : s_(in_three_dimensions(shape)), threads_(threads) {}
  void run(const WindowArgs& args) const override {
    for_each_result(s_, threads_, [&](int64_t n, const Position& at) {
      const auto* a = static_cast<const float*>(args.a) + n * s_.a_batch;
      auto* out = static_cast<float*>(args.out) + n * s_.out_batch + offset(at, s_.out_spatial);
      for (int64_t c = 0; c < s_.channels; ++c)
        out[c * s_.out_channel] = one_element(a + c * s_.a_channel, at);
    });
  }
  const char* name() const override { return "plain"; }

 private:
  float one_element(const float* a, const Position& at) const {
    float sum = 0, most = -std::numeric_limits<float>::infinity();
    int64_t count = 0;
    for (int64_t t = 0; t < volume(s_.taps); ++t) {
      Position in;
      if (!source(s_, false, at, position(t, s_.taps), &in)) continue;
      const float x = a[offset(in, s_.a_spatial)];
      sum += x;
      most = vmax(most, x);
      ++count;
    }
    return s_.average ? sum / static_cast<float>(std::max<int64_t>(count, 1)) : most;
  }

  PoolShape s_;
  int threads_;
};

}  // namespace

struct WindowLibrary::Impl {
  OwnWindows own;
  ByteWindows bytes;
  HalfWindows halves;
  // Keyed by shape, constant weights and threads.
  std::map<std::tuple<ConvolutionShape, const float*, int>, std::unique_ptr<WindowKernel>> convolutions;
  std::map<std::pair<PoolShape, int>, std::unique_ptr<WindowKernel>> pools;
};

WindowLibrary::WindowLibrary() : impl_(new Impl) {}
WindowLibrary::~WindowLibrary() = default;

const WindowKernel* WindowLibrary::kernel(const ConvolutionShape& shape, const void* weights) {
  const int threads = omp_get_max_threads();
  const auto* constant_b = static_cast<const float*>(weights);
  std::unique_ptr<WindowKernel>& slot = impl_->convolutions[{shape, constant_b, threads}];
  if (!slot && is_byte_convolution(shape)) slot = impl_->bytes.kernel(shape, weights, threads);
  if (!slot && is_half_convolution(shape)) {
    const WindowKernel* const f32 =
        kernel(HalfWindows::widened(shape), impl_->halves.widened(shape, weights));
    slot = impl_->halves.kernel(shape, *f32, threads);
  }
  if (!slot) slot = impl_->own.kernel(shape, constant_b, threads);
  if (!slot) slot = std::make_unique<PlainConvolution>(shape, threads);
  return slot.get();
}

const WindowKernel* WindowLibrary::kernel(const PoolShape& shape) {
  const int threads = omp_get_max_threads();
  std::unique_ptr<WindowKernel>& slot = impl_->pools[{shape, threads}];
  if (!slot) slot = std::make_unique<PlainPool>(shape, threads);
  return slot.get();
}

}  // namespace braid::rt
