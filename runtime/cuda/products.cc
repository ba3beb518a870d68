#include "runtime/cuda/products.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/cuda/gemm_kernels.h"
#include "runtime/cuda/tune.h"
#include "runtime/cuda_variables.h"
#include "runtime/device/launch.h"

namespace braid::rt::cuda {

namespace {

bool is_empty(const GemmProblem& problem) { return problem.m == 0 || problem.n == 0 || problem.batch == 0; }

// At the beginning of the workspace: the addresses of a product's matrices.
size_t pointer_bytes(const GemmProblem& problem) {
  if (!problem.batch_by_pointers) return 0;
  return (3 * sizeof(void*) * static_cast<size_t>(problem.batch) + 255) / 256 * 256;
}

}  // namespace

std::shared_ptr<const Gemm> Products::make(const GemmProblem& problem, cudaStream_t stream) {
  int64_t tuned = 0;
  (void)read_variable(kTune, &tuned);
  auto gemm = std::make_shared<Gemm>();
  if (gemm->prepare(problem, tuned != 0 ? kTunedAlgorithms : 1) != cudaSuccess) {
    fail(BRAID_LIBRARY_ERROR, std::string("matrix product: ") + gemm->error());
    return nullptr;
  }
  const cudaError_t e = tune(*gemm, problem, stream);
  if (e == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // without scratch memory the library's choice is good enough
  } else if (!ok(e, "choice of an algorithm")) {
    return nullptr;
  }
  return gemm;
}

bool Products::prepare(PreparedProducts& products, cudaStream_t stream) {
  size_t workspace = 0;
  for (const GemmProblem& problem : products.problems) {
    products.gemms.emplace_back();
    if (is_empty(problem) || problem.k == 0) continue;
    // Most products of a model do not depend on every dimension.
    std::weak_ptr<const Gemm>& known = known_[problem];
    std::shared_ptr<const Gemm> gemm = known.lock();
    if (gemm == nullptr) {
      known = gemm = make(problem, stream);
      if (gemm == nullptr) return false;
    }
    workspace = std::max(workspace, pointer_bytes(problem) + gemm->workspace_bytes());
    products.gemms.back() = std::move(gemm);
  }
  return reserve(workspace);
}

bool Products::reserve(size_t bytes) {
  if (bytes <= workspace_bytes_) return true;
  void* larger = nullptr;
  if (cudaMalloc(&larger, bytes) != cudaSuccess) return no_memory(table_, "workspace", bytes);
  if (workspace_ != nullptr) old_workspaces_.push_back(workspace_);
  workspace_ = larger;
  workspace_bytes_ = bytes;
  return true;
}

bool Products::multiply(const Gemm& gemm, const GemmOperands& operands, cudaStream_t stream) {
  ++launches_of_thread();
  return gemm.run(operands, stream) == cudaSuccess ||
         fail(BRAID_LIBRARY_ERROR, std::string("matrix product: ") + gemm.error());
}

bool Products::run(const GemmProblem& problem, const Gemm* gemm, const GemmOperands& operands,
                   int64_t max_grid, cudaStream_t stream) {
  if (is_empty(problem)) return true;
  if (gemm != nullptr) return multiply(*gemm, operands, stream);
  return store_empty_sums(problem, {{problem.batch, 0, 0, problem.stride_d}}, operands.bias, operands.d,
                          max_grid, stream);
}

bool Products::store_empty_sums(const GemmProblem& problem, std::initializer_list<GemmBatch> batches,
                                const void* bias, void* d, int64_t max_grid, cudaStream_t stream) {
  EmptySums sums = {};
  for (const GemmBatch& batch : batches) sums.level[sums.levels++] = batch;
  sums.batch = problem.batch;
  sums.m = problem.m;
  sums.n = problem.n;
  sums.ldd = problem.ldd == 0 ? problem.n : problem.ldd;
  sums.type = problem.output_type;
  sums.epilogue = problem.epilogue;
  sums.bias = problem.has_bias ? bias : nullptr;
  sums.d = d;
  const int64_t blocks = (problem.batch * problem.m * problem.n + kGemmThreads - 1) / kGemmThreads;
  BRAID_TRY(fill_empty_sums(sums, static_cast<unsigned>(std::min(blocks, max_grid)), stream));
  return true;
}

bool Products::run_batches(const GemmProblem& problem, const Gemm* gemm,
                           std::initializer_list<GemmBatch> batches, const void* a, const void* b, void* d,
                           int64_t max_grid, cudaStream_t stream) {
  if (is_empty(problem)) return true;
  if (gemm == nullptr) return store_empty_sums(problem, batches, nullptr, d, max_grid, stream);
  const auto bytes = [](GemmType type) { return type == GemmType::kFloat32 ? 4 : 2; };
  GemmPointers p = {};
  for (const GemmBatch& batch : batches) p.level[p.levels++] = batch;
  p.a = static_cast<const char*>(a);
  p.b = static_cast<const char*>(b);
  p.d = static_cast<char*>(d);
  p.input_bytes = bytes(problem.input_type);
  p.output_bytes = bytes(problem.output_type);
  p.count = problem.batch;
  p.a_array = static_cast<const void**>(workspace_);
  p.b_array = p.a_array + p.count;
  p.d_array = const_cast<void**>(p.b_array + p.count);
  const int64_t blocks = (p.count + kGemmThreads - 1) / kGemmThreads;
  BRAID_TRY(fill_gemm_pointers(p, static_cast<unsigned>(std::min(blocks, max_grid)), stream));
  GemmOperands operands;
  operands.a = p.a_array;
  operands.b = p.b_array;
  operands.d = p.d_array;
  operands.workspace = static_cast<char*>(workspace_) + pointer_bytes(problem);
  return multiply(*gemm, operands, stream);
}

void Products::drop_unused() {
  std::erase_if(known_, [](const auto& gemm) { return gemm.second.expired(); });
}

void Products::release() {
  known_.clear();
  for (void* memory : old_workspaces_) cudaFree(memory);
  if (workspace_ != nullptr) cudaFree(workspace_);
  old_workspaces_.clear();
  workspace_ = nullptr;
}

}  // namespace braid::rt::cuda
