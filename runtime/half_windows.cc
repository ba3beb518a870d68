#include "runtime/half_windows.h"

#include <algorithm>

#include "runtime/gemm_library.h"
#include "runtime/half_gemm.h"
#include "runtime/team.h"

namespace braid::rt {
namespace {

// The number of elements from the first one to the last one, gaps included.
int64_t extent_of_images(const ConvolutionShape& s) {
  int64_t last = (s.batch - 1) * s.a_batch + (s.groups * s.channels - 1) * s.a_channel;
  for (size_t d = 0; d < static_cast<size_t>(s.spatial); ++d) last += (s.in[d] - 1) * s.a_spatial[d];
  return last + 1;
}
int64_t extent_of_result(const ConvolutionShape& s) {
  int64_t last = (s.batch - 1) * s.out_batch + (s.groups * s.filters - 1) * s.out_channel;
  for (size_t d = 0; d < static_cast<size_t>(s.spatial); ++d) last += (s.out[d] - 1) * s.out_spatial[d];
  return last + 1;
}
int64_t extent_of_weights(const ConvolutionShape& s) {
  int64_t last = (s.groups - 1) * s.b_group + (s.channels - 1) * s.b_channel + (s.filters - 1) * s.b_filter;
  for (size_t d = 0; d < static_cast<size_t>(s.spatial); ++d) last += (s.taps[d] - 1) * s.b_tap[d];
  return last + 1;
}

class WidenedConvolution final : public WindowKernel {
 public:
  WidenedConvolution(const ConvolutionShape& shape, const WindowKernel& f32, int threads)
      : s_(shape), f32_(f32), threads_(threads) {
    for (int d = s_.spatial; d < kMaxSpatial; ++d) {
      s_.out[static_cast<size_t>(d)] = 1;
      s_.out_spatial[static_cast<size_t>(d)] = 0;
    }
    images_.resize(static_cast<size_t>(extent_of_images(shape)));
    if (shape.out_type != DType::f32) result_.resize(static_cast<size_t>(extent_of_result(shape)));
  }
  void run(const WindowArgs& args) const override {
    const auto* const a = static_cast<const uint16_t*>(args.a);
    parallel_for(static_cast<int64_t>(images_.size()), threads_ > 1, [&](int64_t begin, int64_t end) {
      to_floats(s_.type, a + begin, 1, end - begin, images_.data() + begin);
    });
    WindowArgs wide = args;
    wide.a = images_.data();
    if (s_.out_type != DType::f32) wide.out = result_.data();
    f32_.run(wide);
    if (s_.out_type == DType::f32) return;
    auto* const out = static_cast<uint16_t*>(args.out);
    const int64_t pixels = s_.out[0] * s_.out[1] * s_.out[2];
    parallel_for(s_.batch * pixels, threads_ > 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t pixel = k % pixels, line = pixel / s_.out[2];
        const int64_t at = k / pixels * s_.out_batch + line / s_.out[1] * s_.out_spatial[0] +
                           line % s_.out[1] * s_.out_spatial[1] + pixel % s_.out[2] * s_.out_spatial[2];
        to_halves(s_.out_type, result_.data() + at, s_.out_channel, s_.groups * s_.filters, out + at,
                  s_.out_channel);
      }
    });
  }
  const char* name() const override { return "widened halves"; }

 private:
  ConvolutionShape s_;
  const WindowKernel& f32_;
  int threads_;
  mutable std::vector<float> images_, result_;
};

}  // namespace

ConvolutionShape HalfWindows::widened(const ConvolutionShape& shape) {
  ConvolutionShape wide = shape;
  wide.type = wide.b_type = wide.out_type = DType::f32;
  return wide;
}

const float* HalfWindows::widened(const ConvolutionShape& shape, const void* b) {
  const int64_t elements = extent_of_weights(shape);
  for (const Weights& w : weights_) {
    if (w.b == b && w.type == shape.type && w.elements == elements)
      return reinterpret_cast<const float*>(w.floats.get());
  }
  AlignedBytes floats = aligned_bytes(static_cast<size_t>(elements) * sizeof(float));
  to_floats(shape.type, static_cast<const uint16_t*>(b), 1, elements, reinterpret_cast<float*>(floats.get()));
  weights_.push_back({b, shape.type, elements, std::move(floats)});
  return reinterpret_cast<const float*>(weights_.back().floats.get());
}

std::unique_ptr<WindowKernel> HalfWindows::kernel(const ConvolutionShape& shape, const WindowKernel& f32,
                                                  int threads) const {
  return std::make_unique<WidenedConvolution>(shape, f32, threads);
}

}  // namespace braid::rt
