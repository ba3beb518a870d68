#include "runtime/cuda/tune.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace braid::rt::cuda {

namespace {

constexpr int kTimedRuns = 5;

// Bytes of a product's operands: as far as its matrices reach.
struct Extents {
  size_t a, b, c, d, bias;
};

Extents extents(const GemmProblem& problem) {
  const GemmProblem p = with_defaults(problem);
  const auto reach = [&](GemmType type, int64_t rows, int64_t columns, int64_t pitch, int64_t stride) {
    const int64_t elements = (p.batch - 1) * stride + (rows - 1) * pitch + columns;
    return static_cast<size_t>(elements * size_of(type));
  };
  return {reach(p.input_type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.stride_a),
          reach(p.input_type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.stride_b),
          p.beta == 0.0f ? 0 : reach(p.output_type, p.m, p.n, p.ldc, p.stride_c),
          reach(p.output_type, p.m, p.n, p.ldd, p.stride_d), p.has_bias ? static_cast<size_t>(p.n) * 4 : 0};
}

class Scratch {
 public:
  ~Scratch() {
    for (void* memory : memory_) cudaFree(memory);
    for (cudaEvent_t event : {begin, end})
      if (event != nullptr) cudaEventDestroy(event);
  }
  // Fills the memory with ordinary numbers: computing with zeros takes less power, and time.
  cudaError_t take(size_t bytes, cudaStream_t stream, void** out) {
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (const cudaError_t e = cudaMalloc(out, bytes); e != cudaSuccess) return e;
    memory_.push_back(*out);
    return cudaMemsetAsync(*out, 0x3c, bytes, stream);
  }

  cudaEvent_t begin = nullptr, end = nullptr;

 private:
  std::vector<void*> memory_;
};

#define BRAID_SUCCEED(call) \
  if (const cudaError_t e = (call); e != cudaSuccess) return e

cudaError_t time_of(const Gemm& gemm, const GemmOperands& operands, Scratch& scratch, cudaStream_t stream,
                    float* ms) {
  BRAID_SUCCEED(gemm.run(operands, stream));  // the first run loads the kernel
  BRAID_SUCCEED(cudaEventRecord(scratch.begin, stream));
  for (int k = 0; k < kTimedRuns; ++k) BRAID_SUCCEED(gemm.run(operands, stream));
  BRAID_SUCCEED(cudaEventRecord(scratch.end, stream));
  BRAID_SUCCEED(cudaEventSynchronize(scratch.end));
  return cudaEventElapsedTime(ms, scratch.begin, scratch.end);
}

cudaError_t fastest(Gemm& gemm, const GemmProblem& problem, cudaStream_t stream, int* best) {
  Scratch scratch;
  BRAID_SUCCEED(cudaEventCreate(&scratch.begin));
  BRAID_SUCCEED(cudaEventCreate(&scratch.end));
  const Extents bytes = extents(problem);
  void *a, *b, *c, *d, *bias, *workspace;
  BRAID_SUCCEED(scratch.take(bytes.a, stream, &a));
  BRAID_SUCCEED(scratch.take(bytes.b, stream, &b));
  BRAID_SUCCEED(scratch.take(bytes.c, stream, &c));
  BRAID_SUCCEED(scratch.take(bytes.d, stream, &d));
  BRAID_SUCCEED(scratch.take(bytes.bias, stream, &bias));
  size_t most = 0;
  for (int k = 0; k < gemm.algorithms(); ++k) {
    gemm.choose(k);
    most = std::max(most, gemm.workspace_bytes());
  }
  BRAID_SUCCEED(scratch.take(most, stream, &workspace));
  GemmOperands operands;
  operands.a = a;
  operands.b = b;
  operands.c = c;
  operands.d = d;
  operands.bias = bias;
  operands.workspace = workspace;
  float least = 0;
  for (int k = 0; k < gemm.algorithms(); ++k) {
    gemm.choose(k);
    float ms = 0;
    BRAID_SUCCEED(time_of(gemm, operands, scratch, stream, &ms));
    if (k == 0 || ms < least) least = ms, *best = k;
  }
  return cudaSuccess;
}

#undef BRAID_SUCCEED

}  // namespace

cudaError_t tune(Gemm& gemm, const GemmProblem& problem, cudaStream_t stream) {
  if (gemm.algorithms() <= 1) return cudaSuccess;
  int best = 0;
  const cudaError_t e = fastest(gemm, problem, stream, &best);
  gemm.choose(e == cudaSuccess ? best : 0);
  return e;
}

}  // namespace braid::rt::cuda
