// Convolutions and pools of generated CPU programs, f32, in any dense layout; ir::Convolution and ir::Pooling
// (ir/graph.h) define their meaning. Pools have kernels of our own (pool.h). Convolutions with constant
// weights have such kernels on processors with 512-bit vectors (window_kernels_own.h). oneDNN computes the
// others; plain loops do where it has no kernel, and in a build without it. Constant weights are packed once
// per layout. Convolutions of halves with constant weights use oneDNN where the processor multiplies halves,
// and f32 kernels otherwise (half_windows.h). Convolutions of 8-bit integers with constant weights, which are
// not transposed, have kernels of our own (integer_windows.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/dtype.h"
#include "runtime/gemm.h"
#include "runtime/owned.h"

namespace braid::rt {

inline constexpr int kMaxSpatial = 3;

// Strides count elements. Spatial dimensions outermost first; the numbers of unused ones mean nothing.
struct WindowShape {
  int spatial = 0;
  int64_t batch = 0;
  std::array<int64_t, kMaxSpatial> in = {1, 1, 1}, out = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> taps = {1, 1, 1}, stride = {1, 1, 1}, dilation = {1, 1, 1}, pad = {};
  int64_t a_batch = 0, a_channel = 0, out_batch = 0, out_channel = 0;
  std::array<int64_t, kMaxSpatial> a_spatial = {}, out_spatial = {};
  friend auto operator<=>(const WindowShape&, const WindowShape&) = default;
};

struct ConvolutionShape : WindowShape {
  DType type = DType::f32,
        b_type = DType::f32;    // of a and b: f32, both f16 or bf16, or i8 and u8, whose sums are i32
  DType out_type = DType::f32;  // of halves: theirs or f32
  bool finished = false;        // as GemmShape::finished; a row is a position, a column a filter
  bool transposed = false;
  int64_t groups = 1, channels = 0, filters = 0;  // channels and filters of one group
  int64_t b_group = 0, b_channel = 0, b_filter = 0;
  std::array<int64_t, kMaxSpatial> b_tap = {};
  Epilogue epilogue;
  friend auto operator<=>(const ConvolutionShape&, const ConvolutionShape&) = default;

  int64_t weights() const {
    int64_t count = groups * channels * filters;
    for (int d = 0; d < spatial; ++d) count *= taps[d];
    return count;
  }
};

enum class PoolFold : uint8_t {
  max,
  average,  // of the elements inside of a
  sum
};

struct PoolShape : WindowShape {
  int64_t channels = 0;
  PoolFold kind = PoolFold::max;
  friend auto operator<=>(const PoolShape&, const PoolShape&) = default;
};

struct WindowArgs {
  const void* a = nullptr;
  const void* b = nullptr;  // convolutions
  void* out = nullptr;
  const void* vectors[kMaxPostOps] = {};  // operand of post-op k, as in GemmArgs
  FinishTile finish = {};                 // for shapes that are `finished`
};

// A kernel for one shape. It allocates nothing when it runs.
class WindowKernel {
 public:
  virtual ~WindowKernel() = default;
  virtual void run(const WindowArgs& args) const = 0;
  // The implementation's name, oneDNN's own one if it computes this shape, for tests and tuning.
  virtual const char* name() const = 0;
};

// The kernels of one instance.
class WindowLibrary {
 public:
  WindowLibrary();
  ~WindowLibrary();

  // Kernels live as long as the library. `constant_b` is the address of weights that never change, or null.
  const WindowKernel* kernel(const ConvolutionShape& shape, const void* constant_b);
  const WindowKernel* kernel(const PoolShape& shape);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace braid::rt
