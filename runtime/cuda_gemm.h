// Matrix multiplication on the device: cuBLASLt on a GPU, a naive kernel on the emulated device, one
// interface.
//
//   D[m,n] = epilogue(alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n] + bias[n])
//
// All matrices are row-major. Products are accumulated in float32. `prepare` does the set-up once
// (descriptors, choice of algorithm); `run` only enqueues, so it may be captured in a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/cuda_gemm_problem.h"

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/cuda_api.h"
#else
#include <cuda_runtime_api.h>
#endif

namespace braid::rt::cuda {

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
  if (p.batch > INT32_MAX) return "a GEMM has more than 2^31 - 1 matrices";
  const GemmType in = p.input_type, out = p.output_type;
  if (size_of(in) == 4 && out != GemmType::kFloat32)
    return "a GEMM of float32 inputs must have a float32 output";
  if (out != GemmType::kFloat32 && in != out) return "a GEMM's output must be float32 or of the inputs' type";
  const int64_t lda = p.transpose_a ? p.m : p.k, ldb = p.transpose_b ? p.k : p.n;
  if ((p.lda != 0 && p.lda < lda) || (p.ldb != 0 && p.ldb < ldb) || (p.ldc != 0 && p.ldc < p.n) ||
      (p.ldd != 0 && p.ldd < p.n))
    return "a GEMM's rows overlap: a leading dimension is below the row's length";
  return nullptr;
}

// The same problem with all leading dimensions filled in, and the layout of what is passed as C.
inline GemmProblem with_defaults(GemmProblem p) {
  if (p.lda == 0) p.lda = p.transpose_a ? p.m : p.k;
  if (p.ldb == 0) p.ldb = p.transpose_b ? p.k : p.n;
  if (p.ldd == 0) p.ldd = p.n;
  if (p.beta == 0.0f) {  // D takes the place of C, which cuBLASLt accepts for one layout of both only
    p.ldc = p.ldd;
    p.stride_c = p.stride_d;
  }
  if (p.ldc == 0) p.ldc = p.n;
  return p;
}

class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // Unless it returns cudaSuccess, nothing was prepared, and error() says why. Returns cudaErrorNotSupported
  // if the library lacks a type or an epilogue. Arrays of pointers to halves with an alignment below 16 bytes
  // need cuBLASLt 13.1. The library proposes at most `most_algorithms` algorithms, of which the first is
  // chosen.
  cudaError_t prepare(const GemmProblem& problem, int most_algorithms = 1);
  int algorithms() const;
  // Selects the algorithm of the next `run`; indices begin at 0. Changes workspace_bytes().
  void choose(int algorithm);
  size_t workspace_bytes() const;
  cudaError_t run(const GemmOperands& operands, cudaStream_t stream) const;
  // The message of the last call on this object that did not return cudaSuccess; owned by the object.
  const char* error() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace braid::rt::cuda
