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

bool is_empty(const BatchedGemm& product) {
  bool empty = product.matrices.m == 0 || product.matrices.n == 0;
  for (int k = 0; k < product.levels; ++k) empty = empty || product.level[k].size == 0;
  return empty;
}

const char* moved(const void* from, int64_t elements, GemmType type) {
  return static_cast<const char*>(from) + elements * size_of(type);
}

// Bytes at the beginning of the workspace for the addresses of a product's matrices.
size_t pointer_bytes(const GemmCalls& calls) {
  if (calls.pointers == 0) return 0;
  return (3 * sizeof(void*) * static_cast<size_t>(calls.problem.batch) + 255) / 256 * 256;
}

// Arrays of pointers take a launch of their own.
constexpr int64_t kMostRepeats = 2;

}  // namespace

bool Products::make(const GemmProblem& problem, bool may_lack, cudaStream_t stream,
                    std::shared_ptr<const Gemm>* out) {
  // Most products of a model do not depend on every dimension.
  std::weak_ptr<const Gemm>& known = known_[problem];
  *out = known.lock();
  if (*out != nullptr) return true;
  int64_t tuned = 0;
  (void)read_variable(kTune, &tuned);
  auto gemm = std::make_shared<Gemm>();
  const cudaError_t prepared = gemm->prepare(problem, tuned != 0 ? kTunedAlgorithms : 1);
  if (prepared == cudaErrorNotSupported && may_lack) return true;
  if (prepared != cudaSuccess)
    return fail(BRAID_LIBRARY_ERROR, std::string("matrix product: ") + gemm->error());
  const cudaError_t e = tune(*gemm, problem, stream);
  if (e == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // without scratch memory the library's choice is good enough
  } else if (!ok(e, "choice of an algorithm")) {
    return false;
  }
  known = gemm;
  *out = std::move(gemm);
  return true;
}

bool Products::choose_calls(PreparedProduct& prepared, cudaStream_t stream) {
  const GemmCalls repeated = by_strides(prepared.product);
  if (repeated.count() > kMostRepeats) {
    prepared.calls = by_pointers(prepared.product);
    if (!make(prepared.calls.problem, true, stream, &prepared.gemm)) return false;
    if (prepared.gemm != nullptr) return true;
  }
  prepared.calls = repeated;
  return make(prepared.calls.problem, false, stream, &prepared.gemm);
}

bool Products::prepare(const std::vector<BatchedGemm>& products, std::vector<PreparedProduct>& out,
                       cudaStream_t stream) {
  size_t workspace = 0;
  for (const BatchedGemm& product : products) {
    PreparedProduct& prepared = out.emplace_back();
    prepared.product = folded(product);
    if (is_empty(product) || product.matrices.k == 0) continue;
    if (!choose_calls(prepared, stream)) return false;
    workspace = std::max(workspace, pointer_bytes(prepared.calls) + prepared.gemm->workspace_bytes());
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

bool Products::run(const PreparedProduct& prepared, GemmOperands operands, int64_t max_grid,
                   cudaStream_t stream) {
  if (is_empty(prepared.product)) return true;
  if (prepared.gemm == nullptr) return store_empty_sums(prepared, operands, max_grid, stream);
  operands.workspace = workspace_;
  if (prepared.calls.pointers > 0) return multiply_by_pointers(prepared, operands, max_grid, stream);
  return multiply_repeatedly(prepared, operands, stream);
}

bool Products::multiply_repeatedly(const PreparedProduct& prepared, const GemmOperands& operands,
                                   cudaStream_t stream) {
  const GemmCalls& calls = prepared.calls;
  for (int64_t call = 0; call < calls.count(); ++call) {
    int64_t rest = call, a = 0, b = 0, d = 0;
    for (int k = calls.repeats - 1; k >= 0; --k) {
      const GemmBatch& level = calls.repeat[k];
      a += rest % level.size * level.a;
      b += rest % level.size * level.b;
      d += rest % level.size * level.d;
      rest /= level.size;
    }
    GemmOperands one = operands;
    one.a = moved(operands.a, a, calls.problem.input_type);
    one.b = moved(operands.b, b, calls.problem.input_type);
    if (operands.c != nullptr) one.c = moved(operands.c, d, calls.problem.output_type);
    one.d = const_cast<char*>(moved(operands.d, d, calls.problem.output_type));
    if (!multiply(*prepared.gemm, one, stream)) return false;
  }
  return true;
}

bool Products::store_empty_sums(const PreparedProduct& prepared, const GemmOperands& operands,
                                int64_t max_grid, cudaStream_t stream) {
  const GemmProblem& p = prepared.product.matrices;
  EmptySums sums = {};
  sums.batch = 1;
  for (; sums.levels < prepared.product.levels; ++sums.levels) {
    sums.level[sums.levels] = prepared.product.level[sums.levels];
    sums.batch *= sums.level[sums.levels].size;
  }
  sums.m = p.m;
  sums.n = p.n;
  sums.ldd = p.ldd == 0 ? p.n : p.ldd;
  sums.type = p.output_type;
  sums.epilogue = p.epilogue;
  sums.bias = p.has_bias ? operands.bias : nullptr;
  sums.c = p.beta != 0.0f ? operands.c : nullptr;
  sums.d = operands.d;
  const int64_t blocks = (sums.batch * p.m * p.n + kGemmThreads - 1) / kGemmThreads;
  BRAID_TRY(fill_empty_sums(sums, static_cast<unsigned>(std::min(blocks, max_grid)), stream));
  return true;
}

bool Products::multiply_by_pointers(const PreparedProduct& prepared, GemmOperands operands, int64_t max_grid,
                                    cudaStream_t stream) {
  const GemmCalls& calls = prepared.calls;
  GemmPointers p = {};
  for (; p.levels < calls.pointers; ++p.levels) p.level[p.levels] = calls.pointer[p.levels];
  p.a = static_cast<const char*>(operands.a);
  p.b = static_cast<const char*>(operands.b);
  p.d = static_cast<char*>(operands.d);
  p.input_bytes = static_cast<int>(size_of(calls.problem.input_type));
  p.output_bytes = static_cast<int>(size_of(calls.problem.output_type));
  p.count = calls.problem.batch;
  p.a_array = static_cast<const void**>(workspace_);
  p.b_array = p.a_array + p.count;
  p.d_array = const_cast<void**>(p.b_array + p.count);
  const int64_t blocks = (p.count + kGemmThreads - 1) / kGemmThreads;
  BRAID_TRY(fill_gemm_pointers(p, static_cast<unsigned>(std::min(blocks, max_grid)), stream));
  operands.a = p.a_array;
  operands.b = p.b_array;
  operands.d = p.d_array;
  operands.workspace = static_cast<char*>(workspace_) + pointer_bytes(calls);
  return multiply(*prepared.gemm, operands, stream);
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
