// Our own matrix kernels, one set per instruction set.
#pragma once

#include <cstdint>

#include "runtime/gemm.h"

namespace braid::rt {

// b in panels of `width` columns: element (k, n) at (n / width) * panel_stride + k * width + n % width.
struct Panels {
  int64_t width = 0;
  int64_t panel_stride = 0;
};

struct GemmKernels {
  // Any shape and type; [begin, end) are rows of c, counted over all batch matrices.
  void (*run)(const GemmShape& shape, const GemmArgs& args, int64_t begin, int64_t end);
  // One batch, f32, b in panels, c_col == 1; [begin, end) are panels. `b` is the packed matrix.
  void (*run_panels)(const GemmShape& shape, const GemmArgs& args, const float* b, Panels panels,
                     int64_t begin, int64_t end);
  // The same with narrow weights in panels of 64 columns, [panel][k][64]; `type` is i8, u8, f16 or bf16.
  void (*run_byte_panels)(const GemmShape& shape, const GemmArgs& args, const void* b, DType type,
                          int64_t begin, int64_t end);
  // A panel of them as f32.
  void (*widen_panel)(const void* panel, DType type, int64_t k, float* to);
  // Applies the epilogue in place to rows [begin, end) of the c matrix at `c`, f32.
  void (*finish)(const GemmShape& shape, const GemmArgs& args, int64_t c_offset, int64_t begin, int64_t end);
};

namespace baseline {
extern const GemmKernels kGemmKernels;
}
#ifdef __x86_64__
namespace avx2 {
extern const GemmKernels kGemmKernels;
}
namespace avx512 {
extern const GemmKernels kGemmKernels;
}
#endif

}  // namespace braid::rt
