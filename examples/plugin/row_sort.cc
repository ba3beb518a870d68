// An operator that ONNX does not have, computed by a kernel from outside: com.example.RowSort sorts the last
// dimension of a float32 tensor. Attribute `descending` (0 or 1, default 0). NaNs come last.
#include <frontend/op_context.h>
#include <frontend/op_registry.h>
#include <ir/error_numbers.h>
#include <ir/extern_registry.h>

#include <algorithm>
#include <cmath>

namespace {

using braid::ir::ExternCall;
using braid::ir::ExternShapes;

bool before(float a, float b, bool descending) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return descending ? b < a : a < b;
}

// Which calls it takes; an operator's lowering makes only such ones, but a text may hold any.
std::string refuses(const braid::ir::Graph& graph, const braid::ir::ExternKernel& kernel) {
  const auto is_f32 = [&](const braid::ir::TensorRef& ref) {
    return graph[ref.buffer].dtype == braid::ir::DType::f32;
  };
  if (kernel.reads.size() != 1 || kernel.writes.size() != 1 || !is_f32(kernel.reads[0]) ||
      !is_f32(kernel.writes[0]) || kernel.reads[0].sizes.empty() ||
      kernel.reads[0].sizes != kernel.writes[0].sizes)
    return "takes one float32 tensor with rows and makes one of the same sizes";
  const auto descending = kernel.attributes.find("descending");
  if (descending == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(descending->second))
    return "needs the attribute descending, an integer";
  return {};
}

// The op's semantics: the interpreter computes it, and folds constants with it.
void interpret(ExternCall& call) {
  const auto& kernel = *call.op.as<braid::ir::ExternKernel>();
  const bool descending = std::get<std::int64_t>(kernel.attributes.at("descending")) != 0;
  const braid::ir::Tensor& x = call.reads[0];
  call.writes[0].bytes = x.bytes;
  auto* values = reinterpret_cast<float*>(call.writes[0].bytes.data());
  const std::int64_t count = x.numel(), row = count == 0 ? 1 : x.sizes.back();
  for (std::int64_t first = 0; first < count; first += row)
    std::sort(values + first, values + first + row,
              [&](float a, float b) { return before(a, b, descending); });
}

// The cost that schedulers assume beside the bytes of its operands: n log n comparisons.
double flops(const ExternShapes& shapes) {
  double count = 1;
  for (std::int64_t size : shapes.reads[0]) count *= static_cast<double>(size);
  return count * std::log2(std::max<double>(2, static_cast<double>(shapes.reads[0].back())));
}

// The function that a CPU program calls.
constexpr const char* kCpuSource = R"(#include <algorithm>

static const char* row_sort(const BraidExternCall* call) {
  const BraidTensorView& x = call->reads[0];
  const bool descending = braid_find_attribute(call, "descending", BRAID_INTEGER)->integer != 0;
  const int64_t n = x.sizes[x.rank - 1];
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < x.rank; ++d) rows *= x.sizes[d];
  const float* from = static_cast<const float*>(x.data);
  float* to = static_cast<float*>(call->writes[0].data);
  std::copy(from, from + rows * n, to);
  for (int64_t row = 0; row < rows; ++row)
    std::sort(to + row * n, to + (row + 1) * n, [descending](float a, float b) {
      if (a != a || b != b) return a == a && b != b;
      return descending ? b < a : a < b;
    });
  return nullptr;
}
)";

// The function that a CUDA program calls. Each thread counts how many elements of its row come before its
// own.
constexpr const char* kCudaSource =
    R"(__device__ inline bool row_sort_before(float a, float b, bool descending) {
  if (a != a || b != b) return a == a && b != b;
  return descending ? b < a : a < b;
}

static __global__ void row_sort_kernel(const float* x, float* y, int64_t n, bool descending) {
  const float* row = x + static_cast<int64_t>(blockIdx.x) * n;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    int64_t place = 0;
    for (int64_t k = 0; k < n; ++k)
      place += row_sort_before(row[k], row[i], descending) ||
               (k < i && !row_sort_before(row[i], row[k], descending));
    y[static_cast<int64_t>(blockIdx.x) * n + place] = row[i];
  }
}

static const char* row_sort(const BraidExternCall* call) {
  const BraidTensorView& x = call->reads[0];
  const bool descending = braid_find_attribute(call, "descending", BRAID_INTEGER)->integer != 0;
  const int64_t n = x.sizes[x.rank - 1];
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < x.rank; ++d) rows *= x.sizes[d];
  if (rows == 0 || n == 0) return nullptr;
  const cudaError_t error =
      BRAID_LAUNCH(row_sort_kernel, dim3(static_cast<unsigned>(rows)), dim3(256), 0,
                   static_cast<cudaStream_t>(call->stream), static_cast<const float*>(x.data),
                   static_cast<float*>(call->writes[0].data), n, descending);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
)";

const braid::ir::RegisterExternKernel kKernel{{
    .symbol = "row_sort",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = braid::ir::KernelClass::reduction,
    .flops = flops,
    .sources = {{"cpu", kCpuSource}, {"cuda", kCudaSource}},
}};

void lower(braid::frontend::OpContext& c) {
  const braid::ir::TensorBox x = c.input(0);
  if (x.rank() == 0) c.fail(braid::errors::kShapeMismatch, "a scalar has no rows");
  const std::int64_t descending = c.int_attribute("descending", 0);
  c.set_output(0, c.lowering().extern_call("row_sort", {x}, {{x.dtype(), x.sizes()}},
                                           {{"descending", descending}})[0]);
}

// The cost of the operator for a split, which is chosen before the model is lowered.
double flops_of_node(const braid::frontend::WorkNode& node, const braid::frontend::Work&) {
  const braid::frontend::WorkOperand& x = node.input(0);
  return x.elements() * std::log2(std::max(2.0, x.size(-1)));
}

constexpr braid::frontend::Work kWork = {braid::frontend::WorkKind::reduction, flops_of_node};
const braid::frontend::RegisterOp kOperator{
    {"com.example", "RowSort", 1, 1, braid::frontend::TypeSet{braid::ir::DType::f32}, lower, kWork}};

}  // namespace
