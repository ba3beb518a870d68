// Stands in for window_kernels_onednn.cc where oneDNN is not installed: plain loops, slow, for what we have no kernels for (window_kernels_own.h).
#include <omp.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "runtime/gemm_library.h"
#include "runtime/half_windows.h"
#include "runtime/integer_windows.h"
#include "runtime/plain_pool.h"
#include "runtime/plain_windows.h"
#include "runtime/window_kernels.h"
#include "runtime/window_kernels_own.h"

namespace braid::rt {

using namespace plain;

namespace {

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
  if (!slot) slot = plain_pool(shape, threads);
  return slot.get();
}

}  // namespace braid::rt
