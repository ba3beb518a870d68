// The matrix products of an instance: prepared once each, and the workspace that they share.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/failure.h"
#include "runtime/cuda_gemm.h"

namespace braid::rt::cuda {

// Those of a program for one set of dims.
struct PreparedProducts {
  std::vector<GemmProblem> problems;
  std::vector<std::shared_ptr<const Gemm>> gemms;  // null: nothing to multiply
};

class Products : private Reporter {
 public:
  Products(const BraidCudaProgram& table, Failure& failure) : Reporter(failure), table_(table) {}

  // Of `problems`. A problem that is prepared already, for other dims, is not prepared again. With BRAID_CUDA_TUNE=1 the
  // algorithm of a new one is the fastest of those that the library proposes, measured on `stream`.
  bool prepare(PreparedProducts& products, cudaStream_t stream);
  bool run(const GemmProblem& problem, const Gemm* gemm, const GemmOperands& operands, int64_t max_grid,
           cudaStream_t stream);
  bool run_batches(const GemmProblem& problem, const Gemm* gemm, std::initializer_list<GemmBatch> batches,
                   const void* a, const void* b, void* d, int64_t max_grid, cudaStream_t stream);
  // The workspace has at least so many bytes. Kernels use it as well, as they run on the same stream.
  bool reserve(size_t bytes);
  // Drops those that no dims have any longer.
  void drop_unused();
  void release();

  void* workspace() const { return workspace_; }

 private:
  bool multiply(const Gemm& gemm, const GemmOperands& operands, cudaStream_t stream);
  bool store_empty_sums(const GemmProblem& problem, std::initializer_list<GemmBatch> batches,
                        const void* bias, void* d, int64_t max_grid, cudaStream_t stream);
  std::shared_ptr<const Gemm> make(const GemmProblem& problem, cudaStream_t stream);

  const BraidCudaProgram& table_;
  std::map<GemmProblem, std::weak_ptr<const Gemm>> known_;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::vector<void*> old_workspaces_;  // of steps that may still run, or were captured
};

}  // namespace braid::rt::cuda
