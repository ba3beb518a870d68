// The description of a matrix product; runtime/cuda_gemm.h runs it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace braid::rt::cuda {

// kTensorFloat32: f32 in memory, of which the library multiplies 11 significant bits. Only of inputs.
enum class GemmType { kFloat32, kTensorFloat32, kFloat16, kBFloat16 };

inline constexpr int64_t size_of(GemmType type) {
  return type == GemmType::kFloat32 || type == GemmType::kTensorFloat32 ? 4 : 2;
}

// kGelu is the tanh approximation, the only one in cuBLASLt; exact GELU is a separate kernel.
enum class GemmEpilogue { kNone, kRelu, kGelu };

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k,m]
  bool transpose_b = false;  // B is stored [n,k]
  // Elements from one row to the next as stored; 0: densely packed.
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;
  // Elements from one matrix of a batch to the next; 0: all use the same one (not for D).
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;
  // A, B and D are `batch` matrices at the addresses in device arrays; no strides, bias, epilogue or C.
  bool batch_by_pointers = false;
  GemmType input_type = GemmType::kFloat32;   // of A and B
  GemmType output_type = GemmType::kFloat32;  // of C, D and bias
  // Every pointer given to `run` is a multiple of this many bytes. No algorithm profits from more than 16.
  int alignment_a = 16, alignment_b = 16, alignment_c = 16, alignment_d = 16;
  float alpha = 1.0f, beta = 0.0f;
  bool has_bias = false;  // bias[n], added before the activation, the same for the whole batch
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  // The most workspace that an algorithm may use; the caller provides workspace_bytes() to `run`. 32 MiB is
  // usual for Hopper.
  size_t workspace_limit = size_t{32} << 20;

  auto operator<=>(const GemmProblem&) const = default;
};

// One batch dimension of a product: how many matrices, and the elements from one to the next.
struct GemmBatch {
  int64_t size, a, b, d;
};

inline constexpr int kMostGemmBatches = 8;

// A product of a step at the present dims, as its operands lie in memory. runtime/cuda/batches.h turns it
// into calls of the library.
struct BatchedGemm {
  GemmProblem matrices;  // of one pair: without batch, strides and alignments
  int levels = 0;        // batch dimensions, outermost first
  GemmBatch level[kMostGemmBatches] = {};
  // Bytes from a multiple of 16 to the first element. C, which is read if `beta` is not 0, has the layout of
  // D.
  int64_t offset_a = 0, offset_b = 0, offset_c = 0, offset_d = 0;
};

}  // namespace braid::rt::cuda
