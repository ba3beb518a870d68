// Matrix multiplication on a GPU by cuBLASLt. Arrays of pointers go to cuBLAS. Its kernels for halves read 16
// bytes at once without checking the addresses; for halves with a smaller alignment cuBLASLt takes such
// arrays since version 13.1.
//
// cuBLASLt's epilogues require a bias along the rows of a column-major D. A row-major D[m,n] is a
// column-major [n,m], so we compute D' = B' * A' with the operands exchanged: each row-major matrix is passed
// as the column-major matrix of the same bytes, and our bias[n] lies along the rows. The emulated device has
// its own products.
#ifndef BRAID_EMULATED_DEVICE

#include <cublasLt.h>
#include <cublas_v2.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda_gemm.h"

namespace braid::rt::cuda {
namespace {

// Returns a library's handle for the current device. Each handle is bound to one device's context, so there
// is one per device. It is made at first use and never destroyed, because the library may be unloaded before
// static objects are.
template <class Handle, cublasStatus_t (*Create)(Handle*)>
Handle handle_of_device(cublasStatus_t* status) {
  static std::mutex mutex;
  static Handle handles[64] = {};
  int device = 0;
  *status = CUBLAS_STATUS_NOT_INITIALIZED;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 64) return nullptr;
  std::lock_guard lock(mutex);
  *status = CUBLAS_STATUS_SUCCESS;
  if (handles[device] == nullptr) *status = Create(&handles[device]);
  return handles[device];
}

cudaDataType_t type_of(GemmType type) {
  switch (type) {
    case GemmType::kFloat16:
      return CUDA_R_16F;
    case GemmType::kBFloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const GemmProblem& problem) {
  return problem.input_type == GemmType::kTensorFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(const GemmProblem& problem) {
  switch (problem.epilogue) {
    case GemmEpilogue::kRelu:
      return problem.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case GemmEpilogue::kGelu:
      return problem.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return problem.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// Owns a cuBLASLt object.
template <class T, cublasStatus_t (*Destroy)(T)>
struct Owned {
  T value = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (value != nullptr) Destroy(value);
  }
};

}  // namespace

struct Gemm::Plan {
  GemmProblem problem;
  bool prepared = false;
  std::string error;
  cublasHandle_t pointer_handle = nullptr;  // of arrays of pointers for cuBLAS
  cublasLtHandle_t handle = nullptr;        // otherwise
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> first, second, c, d;  // of B', A', C', D'
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;                         // in cuBLASLt's order
  size_t chosen = 0;
  size_t workspace = 0;

  bool check(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    error = std::string("cuBLASLt: ") + what + ": " + cublasLtGetStatusString(status);
    return false;
  }

  // Describes a row-major matrix of `rows` rows with `columns` elements.
  bool describe(cublasLtMatrixLayout_t* layout, GemmType type, int64_t rows, int64_t columns, int64_t pitch,
                int64_t stride) {
    const int32_t count = static_cast<int32_t>(problem.batch);
    return check(cublasLtMatrixLayoutCreate(layout, type_of(type), static_cast<uint64_t>(columns),
                                            static_cast<uint64_t>(rows), pitch),
                 "matrix layout") &&
           check(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                  sizeof count),
                 "batch count") &&
           check(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &stride, sizeof stride),
                 "batch stride") &&
           (!problem.batch_by_pointers || describe_pointers(*layout));
  }

  bool describe_pointers([[maybe_unused]] cublasLtMatrixLayout_t layout) {
#if CUBLAS_VERSION >= 130100
    const uint32_t mode = CUBLASLT_BATCH_MODE_POINTER_ARRAY;
    return check(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode, sizeof mode),
        "arrays of pointers");
#else
    return check(CUBLAS_STATUS_NOT_SUPPORTED, "arrays of pointers");
#endif
  }

  bool is_for_cublas() const {
    const GemmProblem& p = problem;
    return p.batch_by_pointers &&
           (size_of(p.input_type) == 4 || std::min({p.alignment_a, p.alignment_b, p.alignment_d}) >= 16);
  }

  bool make(int most_algorithms) {
    const GemmProblem& p = problem;
    cublasStatus_t status;
    if (is_for_cublas()) {
      pointer_handle = handle_of_device<cublasHandle_t, cublasCreate>(&status);
      workspace = p.workspace_limit;
      return check(status, "handle of cuBLAS");
    }
    handle = handle_of_device<cublasLtHandle_t, cublasLtCreate>(&status);
    if (!check(status, "handle")) return false;
    if (!check(cublasLtMatmulDescCreate(&operation.value, compute_type(p), CUDA_R_32F), "operation"))
      return false;
    const cublasOperation_t first_transposed = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second_transposed = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p);
    const cudaDataType_t bias_type = type_of(p.output_type);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      return check(cublasLtMatmulDescSetAttribute(operation.value, attribute, &value, sizeof value),
                   "operation attribute");
    };
    if (!set(CUBLASLT_MATMUL_DESC_TRANSA, first_transposed) ||
        !set(CUBLASLT_MATMUL_DESC_TRANSB, second_transposed) ||
        !set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) ||
        (p.has_bias && !set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type)))
      return false;
    if (!describe(&first.value, p.input_type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb,
                  p.stride_b) ||
        !describe(&second.value, p.input_type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda,
                  p.stride_a) ||
        !describe(&c.value, p.output_type, p.m, p.n, p.ldc, p.stride_c) ||
        !describe(&d.value, p.output_type, p.m, p.n, p.ldd, p.stride_d))
      return false;
    return find_algorithms(most_algorithms);
  }

  // The fastest first, as the library estimates them.
  bool find_algorithms(int most_algorithms) {
    const GemmProblem& p = problem;
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    algorithms.resize(static_cast<size_t>(most_algorithms));
    int count = 0;
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return check(cublasLtMatmulPreferenceSetAttribute(preference.value, attribute, &value, sizeof value),
                   "preference");
    };
    const auto aligned = [&](cublasLtMatmulPreferenceAttributes_t attribute, int bytes) {
      return prefer(attribute, static_cast<uint32_t>(bytes));
    };
    if (!check(cublasLtMatmulPreferenceCreate(&preference.value), "preference") ||
        !prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p.workspace_limit) ||
        !aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment_b) ||
        !aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment_a) ||
        !aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                 p.beta == 0.0f ? p.alignment_d : p.alignment_c) ||
        !aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment_d) ||
        !check(cublasLtMatmulAlgoGetHeuristic(handle, operation.value, first.value, second.value, c.value,
                                              d.value, preference.value, most_algorithms, algorithms.data(),
                                              &count),
               "choice of an algorithm"))
      return false;
    if (count == 0) {
      error = "cuBLASLt has no algorithm for this GEMM";
      return false;
    }
    algorithms.resize(static_cast<size_t>(count));
    choose(0);
    return true;
  }

  void choose(size_t algorithm) {
    chosen = algorithm;
    workspace = algorithms[algorithm].workspaceSize;
  }

  // Stream and workspace belong to the handle, which all products of the device share.
  bool run_pointers(const GemmOperands& o, cudaStream_t stream) {
    static std::mutex mutex;
    const GemmProblem& p = problem;
    const std::lock_guard lock(mutex);
    return check(cublasSetStream(pointer_handle, stream), "stream") &&
           check(cublasSetWorkspace(pointer_handle, o.workspace, workspace), "workspace") &&
           check(cublasGemmBatchedEx_64(pointer_handle, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                        p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, p.n, p.m, p.k, &p.alpha,
                                        static_cast<const void* const*>(o.b), type_of(p.input_type), p.ldb,
                                        static_cast<const void* const*>(o.a), type_of(p.input_type), p.lda,
                                        &p.beta, static_cast<void* const*>(o.d), type_of(p.output_type),
                                        p.ldd, p.batch, compute_type(p), CUBLAS_GEMM_DEFAULT),
                 "batched matmul");
  }
};

Gemm::Gemm() : plan_(std::make_unique<Plan>()) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

cudaError_t Gemm::prepare(const GemmProblem& problem, int most_algorithms) {
  auto plan = std::make_unique<Plan>();
  plan->problem = with_defaults(problem);
  const char* why = reason_against(problem);
  if (why != nullptr) {
    plan->error = why;
    plan_ = std::move(plan);
    return cudaErrorInvalidValue;
  }
  const bool nothing = problem.m == 0 || problem.n == 0 || problem.batch == 0;
  plan->prepared = nothing || plan->make(most_algorithms);
  plan_ = std::move(plan);
  return plan_->prepared ? cudaSuccess : cudaErrorNotSupported;
}

int Gemm::algorithms() const { return std::max(static_cast<int>(plan_->algorithms.size()), 1); }
void Gemm::choose(int algorithm) {
  if (!plan_->algorithms.empty()) plan_->choose(static_cast<size_t>(algorithm));
}

size_t Gemm::workspace_bytes() const { return plan_->workspace; }

cudaError_t Gemm::run(const GemmOperands& o, cudaStream_t stream) const {
  if (!plan_->prepared) return cudaErrorInvalidValue;
  const GemmProblem& p = plan_->problem;
  if (plan_->pointer_handle != nullptr)
    return plan_->run_pointers(o, stream) ? cudaSuccess : cudaErrorUnknown;
  if (plan_->operation.value == nullptr) return cudaSuccess;
  if (p.has_bias &&
      !plan_->check(cublasLtMatmulDescSetAttribute(plan_->operation.value, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                   &o.bias, sizeof o.bias),
                    "bias"))
    return cudaErrorInvalidValue;
  const void* c = p.beta == 0.0f ? o.d : o.c;  // not read if beta is 0, but may not be null
  const cublasStatus_t status =
      cublasLtMatmul(plan_->handle, plan_->operation.value, &p.alpha, o.b, plan_->first.value, o.a,
                     plan_->second.value, &p.beta, c, plan_->c.value, o.d, plan_->d.value,
                     &plan_->algorithms[plan_->chosen].algo, o.workspace, plan_->workspace, stream);
  return plan_->check(status, "matmul") ? cudaSuccess : cudaErrorUnknown;
}

const char* Gemm::error() const { return plan_->error.c_str(); }

}  // namespace braid::rt::cuda

#endif
