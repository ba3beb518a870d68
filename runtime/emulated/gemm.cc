// Matrix multiplication on the emulated device. It records accesses element by element, as a kernel does; the
// arithmetic works on rows converted to float32.
#include "runtime/emulated/gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/cuda_gemm.h"
#include "runtime/emulated/block.h"
#include "runtime/emulated/half_types.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/planned_memory.h"
#include "runtime/emulated/stream.h"

namespace braid::rt::cuda {

using namespace braid::emulated;

struct Gemm::Plan {
  GemmProblem problem;
  bool prepared = false;
  int algorithms = 1;
  std::string error;
};

namespace {

std::atomic<int> preparations = 0, choices = 0;

void load(const void* from, GemmType type, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    switch (type) {
      case GemmType::kFloat32:
        to[i] = static_cast<const float*>(from)[i];
        break;
      case GemmType::kTensorFloat32:
        to[i] = std::bit_cast<float>(emulated::tf32_bits(static_cast<const float*>(from)[i]));
        break;
      case GemmType::kFloat16:
        to[i] = static_cast<const __half*>(from)[i];
        break;
      case GemmType::kBFloat16:
        to[i] = static_cast<const __nv_bfloat16*>(from)[i];
        break;
    }
  }
}

void store(const float* from, GemmType type, int64_t count, void* to) {
  for (int64_t i = 0; i < count; ++i) {
    switch (type) {
      case GemmType::kFloat32:
      case GemmType::kTensorFloat32:
        static_cast<float*>(to)[i] = from[i];
        break;
      case GemmType::kFloat16:
        static_cast<__half*>(to)[i] = __half(from[i]);
        break;
      case GemmType::kBFloat16:
        static_cast<__nv_bfloat16*>(to)[i] = __nv_bfloat16(from[i]);
        break;
    }
  }
}

// The rows of one stored matrix, recorded and converted: rows x columns, dense.
class Operand {
 public:
  Operand(AccessSet& accesses, std::unique_ptr<Fault>& fault) : accesses_(accesses), fault_(fault) {}

  bool touch(const void* pointer, size_t bytes, AccessKind kind) {
    if (bytes == 0) return true;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (!DeviceMemory::contains(address)) {
      fault_ = std::make_unique<Fault>(Fault{FindingKind::kIllegalAccess, "an operand is not device memory"});
      return false;
    }
    const std::string* why = accesses_.record(address, bytes, kind);
    if (why != nullptr) fault_ = std::make_unique<Fault>(Fault{FindingKind::kIllegalAccess, *why});
    return why == nullptr;
  }

  bool read(const void* base, GemmType type, int64_t rows, int64_t columns, int64_t pitch,
            std::vector<float>& to) {
    to.resize(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
      const char* row = static_cast<const char*>(base) + static_cast<size_t>(r * pitch * size_of(type));
      if (!touch(row, static_cast<size_t>(columns * size_of(type)), AccessKind::kRead)) return false;
      load(row, type, columns, to.data() + r * columns);
    }
    return true;
  }

 private:
  AccessSet& accesses_;
  std::unique_ptr<Fault>& fault_;
};

std::vector<float> transposed(const std::vector<float>& from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
  return to;
}

float activate(GemmEpilogue epilogue, float x) {
  switch (epilogue) {
    case GemmEpilogue::kNone:
      return x;
    case GemmEpilogue::kRelu:
      return x > 0.0f ? x : 0.0f;
    case GemmEpilogue::kGelu:
      return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
  return x;
}

// Algorithms load several elements at once where the problem promises it.
std::unique_ptr<Fault> find_misaligned(const GemmProblem& p, const GemmOperands& o) {
  const auto check = [](const char* name, const void* pointer, int alignment) -> std::unique_ptr<Fault> {
    const uintptr_t rest = reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment);
    if (rest == 0) return nullptr;
    return std::make_unique<Fault>(Fault{
        FindingKind::kInvalidUse, std::string("operand ") + name + " is misaligned: the problem promises " +
                                      std::to_string(alignment) + " bytes, and its address is " +
                                      std::to_string(rest) + " bytes behind a multiple of them"});
  };
  if (auto fault = check("A", o.a, p.alignment_a)) return fault;
  if (auto fault = check("B", o.b, p.alignment_b)) return fault;
  if (p.beta != 0.0f)
    if (auto fault = check("C", o.c, p.alignment_c)) return fault;
  if (p.has_bias)
    if (auto fault = check("bias", o.bias, static_cast<int>(size_of(p.output_type)))) return fault;
  return check("D", o.d, p.alignment_d);
}

// An operand that runs into the next one reads nothing that the step does not declare, but is wrong.
std::unique_ptr<Fault> find_overrun(const GemmProblem& p, const GemmOperands& o) {
  const DeclaredStep* step = running_step();
  if (step == nullptr) return nullptr;
  const auto check = [&](const char* name, const void* pointer, int64_t rows, int64_t columns, int64_t pitch,
                         int64_t stride, GemmType type) -> std::unique_ptr<Fault> {
    const int64_t elements = (p.batch - 1) * stride + (rows - 1) * pitch + columns;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
    if (rows <= 0 || columns <= 0) return nullptr;
    const std::string text = step->overrun(begin, begin + static_cast<size_t>(elements * size_of(type)));
    if (text.empty()) return nullptr;
    return std::make_unique<Fault>(
        Fault{FindingKind::kUndeclaredAccess, std::string("operand ") + name + " runs " + text + ": " +
                                                  std::to_string(rows) + " x " + std::to_string(columns) +
                                                  ", leading dimension " + std::to_string(pitch) +
                                                  ", batch stride " + std::to_string(stride)});
  };
  if (auto fault = check("A", o.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.stride_a,
                         p.input_type))
    return fault;
  if (auto fault = check("B", o.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.stride_b,
                         p.input_type))
    return fault;
  return check("D", o.d, p.m, p.n, p.ldd, p.stride_d, p.output_type);
}

std::unique_ptr<Fault> multiply(const GemmProblem& p, const GemmOperands& o, AccessSet& accesses) {
  std::unique_ptr<Fault> fault = find_misaligned(p, o);
  if (!fault) fault = find_overrun(p, o);
  if (fault) return fault;
  Operand operand(accesses, fault);
  const auto at = [](const void* base, int64_t index, int64_t stride, GemmType type) {
    return static_cast<const char*>(base) + static_cast<size_t>(index * stride * size_of(type));
  };
  const int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  std::vector<float> a, b, c, bias, d(static_cast<size_t>(p.n));
  if (p.has_bias && !operand.read(o.bias, p.output_type, 1, p.n, p.n, bias)) return fault;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    if (batch == 0 || p.stride_a != 0) {
      if (!operand.read(at(o.a, batch, p.stride_a, p.input_type), p.input_type, a_rows, a_columns, p.lda, a))
        return fault;
      if (p.transpose_a) a = transposed(a, a_rows, a_columns);
    }
    if (batch == 0 || p.stride_b != 0) {
      if (!operand.read(at(o.b, batch, p.stride_b, p.input_type), p.input_type, b_rows, b_columns, p.ldb, b))
        return fault;
      if (p.transpose_b) b = transposed(b, b_rows, b_columns);
    }
    for (int64_t m = 0; m < p.m; ++m) {
      std::fill(d.begin(), d.end(), 0.0f);
      for (int64_t k = 0; k < p.k; ++k) {
        const float factor = a[static_cast<size_t>(m * p.k + k)];
        const float* row = b.data() + k * p.n;
        for (int64_t n = 0; n < p.n; ++n) d[static_cast<size_t>(n)] += factor * row[n];
      }
      if (p.beta != 0.0f && !operand.read(at(o.c, batch, p.stride_c, p.output_type) +
                                              static_cast<size_t>(m * p.ldc * size_of(p.output_type)),
                                          p.output_type, 1, p.n, p.n, c))
        return fault;
      for (int64_t n = 0; n < p.n; ++n) {
        float value = p.alpha * d[static_cast<size_t>(n)];
        if (p.beta != 0.0f) value += p.beta * c[static_cast<size_t>(n)];
        if (p.has_bias) value += bias[static_cast<size_t>(n)];
        d[static_cast<size_t>(n)] = activate(p.epilogue, value);
      }
      char* to = static_cast<char*>(o.d) +
                 static_cast<size_t>((batch * p.stride_d + m * p.ldd) * size_of(p.output_type));
      if (!operand.touch(to, static_cast<size_t>(p.n * size_of(p.output_type)), AccessKind::kWrite))
        return fault;
      store(d.data(), p.output_type, p.n, to);
    }
  }
  return fault;
}

// Every matrix whose address lies in the arrays.
std::unique_ptr<Fault> multiply_by_pointers(const GemmProblem& p, const GemmOperands& o,
                                            AccessSet& accesses) {
  GemmProblem one = p;
  one.batch_by_pointers = false;
  one.batch = 1;
  std::unique_ptr<Fault> fault;
  Operand arrays(accesses, fault);
  const auto at = [&](const void* array, int64_t k) -> void* {
    void* const* address = static_cast<void* const*>(array) + k;
    return arrays.touch(address, sizeof *address, AccessKind::kRead) ? *address : nullptr;
  };
  for (int64_t k = 0; k < p.batch && !fault; ++k) {
    GemmOperands operands;
    operands.a = at(o.a, k);
    if (!fault) operands.b = at(o.b, k);
    if (!fault) operands.d = at(o.d, k);
    if (!fault) fault = multiply(one, operands, accesses);
  }
  return fault;
}

}  // namespace

Gemm::Gemm() : plan_(std::make_unique<Plan>()) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

cudaError_t Gemm::prepare(const GemmProblem& problem, int most_algorithms) {
  ++preparations;
  plan_->prepared = false;
  if (const char* why = reason_against(problem)) {
    plan_->error = why;
    return result(cudaErrorInvalidValue);
  }
  if (problem.batch_by_pointers && size_of(problem.input_type) < 4 && !options().misaligned_pointers &&
      std::min({problem.alignment_a, problem.alignment_b, problem.alignment_d}) < 16) {
    plan_->error = "arrays of pointers to halves must be multiples of 16 bytes";
    return cudaErrorNotSupported;
  }
  plan_->problem = with_defaults(problem);
  plan_->algorithms = std::min(most_algorithms, problem.batch_by_pointers ? 1 : 2);  // which are the same
  plan_->prepared = true;
  return cudaSuccess;
}

int Gemm::algorithms() const { return plan_->algorithms; }
void Gemm::choose(int) { ++choices; }

size_t Gemm::workspace_bytes() const { return 0; }

cudaError_t Gemm::run(const GemmOperands& operands, cudaStream_t handle) const {
  if (!plan_->prepared) return result(cudaErrorInvalidValue);
  const GemmProblem& p = plan_->problem;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return cudaSuccess;
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->device.error.load() != cudaSuccess)
    return result(static_cast<cudaError_t>(stream->device.error.load()));
  return enqueue_operation(*stream, "Gemm", [problem = p, operands](TaskContext& context) {
    return problem.batch_by_pointers ? multiply_by_pointers(problem, operands, context.accesses)
                                     : multiply(problem, operands, context.accesses);
  });
}

const char* Gemm::error() const { return plan_->error.c_str(); }

}  // namespace braid::rt::cuda

int braid::emulated::gemm_preparations() { return braid::rt::cuda::preparations; }
int braid::emulated::gemm_choices() { return braid::rt::cuda::choices; }
