// Replaces window_kernels_onednn.cc where oneDNN is not installed: plain, slow loops for shapes without
// kernels of our own (window_kernels_own.h).
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "runtime/half_windows.h"
#include "runtime/integer_windows.h"
#include "runtime/plain_convolution.h"
#include "runtime/pool.h"
#include "runtime/team.h"
#include "runtime/window_kernels.h"
#include "runtime/window_kernels_own.h"

namespace braid::rt {

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
  const int threads = team_threads();
  const auto* constant_b = static_cast<const float*>(weights);
  std::unique_ptr<WindowKernel>& slot = impl_->convolutions[{shape, constant_b, threads}];
  if (!slot && is_byte_convolution(shape)) slot = impl_->bytes.kernel(shape, weights, threads);
  if (!slot && is_half_convolution(shape)) {
    const WindowKernel* const f32 =
        kernel(HalfWindows::widened(shape), impl_->halves.widened(shape, weights));
    slot = impl_->halves.kernel(shape, *f32, threads);
  }
  if (!slot) slot = impl_->own.kernel(shape, constant_b, threads);
  if (!slot) slot = plain_convolution(shape, threads);
  return slot.get();
}

const WindowKernel* WindowLibrary::kernel(const PoolShape& shape) {
  const int threads = team_threads();
  std::unique_ptr<WindowKernel>& slot = impl_->pools[{shape, threads}];
  if (!slot) slot = pool_kernel(shape, threads);
  return slot.get();
}

}  // namespace braid::rt
