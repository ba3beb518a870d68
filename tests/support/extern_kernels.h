// Extern kernels for tests.
//
//   blend: writes(y) = scale * x + old + shift + the length of `text`, on f32 and any strides, where
//     reads(x, old) are of the sizes of y; `old` may be absent. Attributes scale (real), shift (integer),
//     text. It fails where shift is 13.
//   host_only: the same, without a source for the CUDA target, on row-major operands.
#pragma once

namespace braid::test {

inline constexpr const char* kBlendFailure = "13 is no shift";

void register_extern_kernels();  // once or more often

}  // namespace braid::test
