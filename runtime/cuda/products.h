// The matrix products of an instance: prepared once each, and the workspace that they share.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/batches.h"
#include "runtime/cuda/failure.h"
#include "runtime/cuda_gemm.h"

namespace braid::rt::cuda {

// One of a program for one set of dims.
struct PreparedProduct {
  BatchedGemm product;  // folded
  GemmCalls calls;
  std::shared_ptr<const Gemm> gemm;  // null: nothing to multiply
};

class Products : private Reporter {
 public:
  Products(const BraidCudaProgram& table, Failure& failure) : Reporter(failure), table_(table) {}

  // Prepares `products` for the current dims, except problems that are already prepared for other dims. With
  // BRAID_CUDA_TUNE=1 a new problem gets the fastest of the algorithms that the library proposes, measured on
  // `stream`.
  bool prepare(const std::vector<BatchedGemm>& products, std::vector<PreparedProduct>& out,
               cudaStream_t stream);
  // `operands`: the first matrices.
  bool run(const PreparedProduct& prepared, GemmOperands operands, int64_t max_grid, cudaStream_t stream);
  // The workspace has at least so many bytes. Kernels use it as well, as they run on the same stream.
  bool reserve(size_t bytes);
  // Drops those that no dims have any longer.
  void drop_unused();
  void release();

  void* workspace() const { return workspace_; }

 private:
  bool choose_calls(PreparedProduct& prepared, cudaStream_t stream);
  bool multiply(const Gemm& gemm, const GemmOperands& operands, cudaStream_t stream);
  bool multiply_by_pointers(const PreparedProduct& prepared, GemmOperands operands, int64_t max_grid,
                            cudaStream_t stream);
  bool multiply_repeatedly(const PreparedProduct& prepared, const GemmOperands& operands,
                           cudaStream_t stream);
  bool store_empty_sums(const PreparedProduct& prepared, const GemmOperands& operands, int64_t max_grid,
                        cudaStream_t stream);
  // Sets *gemm to null if the library lacks the problem and that is no error here.
  bool make(const GemmProblem& problem, bool may_lack, cudaStream_t stream,
            std::shared_ptr<const Gemm>* gemm);

  const BraidCudaProgram& table_;
  std::map<GemmProblem, std::weak_ptr<const Gemm>> known_;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::vector<void*> old_workspaces_;  // of steps that may still run, or were captured
};

}  // namespace braid::rt::cuda
