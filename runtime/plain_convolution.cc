#include "runtime/plain_convolution.h"

#include "runtime/gemm_library.h"
#include "runtime/plain_windows.h"
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

std::unique_ptr<WindowKernel> plain_convolution(const ConvolutionShape& shape, int threads) {
  return std::make_unique<PlainConvolution>(shape, threads);
}

}  // namespace braid::rt
