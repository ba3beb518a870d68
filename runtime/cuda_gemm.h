// Matrix multiplication on the device: cuBLASLt on a GPU, a naive kernel on the emulated device, one
// interface.
//
//   D[m,n] = epilogue(alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n] + bias[n])
//
// All matrices are row-major. Products are accumulated in float32. `prepare` does the set-up once
// (descriptors, choice of algorithm); `run` only enqueues, so it may be captured in a graph.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/cuda_api.h"
#else
#include <cuda_runtime.h>
#endif

namespace braid::rt::cuda {

enum class GemmType { kFloat32, kFloat16, kBFloat16 };

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

struct GemmOperands {
  const void* a = nullptr;  // batch_by_pointers: an array of pointers, as b and d
  const void* b = nullptr;
  const void* c = nullptr;  // read when beta != 0; may be D
  const void* bias = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;  // workspace_bytes(), 256-byte aligned, not shared with work that may overlap
};

// Why no implementation accepts the problem; null if some do.
inline const char* reason_against(const GemmProblem& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) return "a GEMM's sizes are negative";
  if (p.batch > 1 && p.stride_d == 0 && !p.batch_by_pointers) return "a batched GEMM requires a stride of D";
  if (p.batch_by_pointers && (p.has_bias || p.epilogue != GemmEpilogue::kNone || p.beta != 0.0f))
    return "a GEMM over arrays of pointers has neither bias nor epilogue nor C";
  if (p.batch_by_pointers && p.input_type != GemmType::kFloat32 &&
      (p.alignment_a < 16 || p.alignment_b < 16 || p.alignment_d < 16))
    return "a GEMM over arrays of pointers to halves requires multiples of 16 bytes";
  const GemmType in = p.input_type, out = p.output_type;
  if (in == GemmType::kFloat32 && out != GemmType::kFloat32)
    return "a GEMM of float32 inputs must have a float32 output";
  if (out != GemmType::kFloat32 && in != out) return "a GEMM's output must be float32 or of the inputs' type";
  const int64_t lda = p.transpose_a ? p.m : p.k, ldb = p.transpose_b ? p.k : p.n;
  if ((p.lda != 0 && p.lda < lda) || (p.ldb != 0 && p.ldb < ldb) || (p.ldc != 0 && p.ldc < p.n) ||
      (p.ldd != 0 && p.ldd < p.n))
    return "a GEMM's rows overlap: a leading dimension is below the row's length";
  return nullptr;
}

// The same problem with all leading dimensions filled in.
inline GemmProblem with_defaults(GemmProblem p) {
  if (p.lda == 0) p.lda = p.transpose_a ? p.m : p.k;
  if (p.ldb == 0) p.ldb = p.transpose_b ? p.k : p.n;
  if (p.ldc == 0) p.ldc = p.n;
  if (p.ldd == 0) p.ldd = p.n;
  return p;
}

class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // Unless it returns cudaSuccess, nothing was prepared, and error() says why (a type or epilogue the library
  // lacks).
  cudaError_t prepare(const GemmProblem& problem);
  size_t workspace_bytes() const;
  cudaError_t run(const GemmOperands& operands, cudaStream_t stream) const;
  // The message of the last call on this object that did not return cudaSuccess; owned by the object.
  const char* error() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace braid::rt::cuda
