// The extern kernel `cumulative` (runtime/host/cumulative.h).
#include "codegen/kernels/source_text.h"
#include "ir/element.h"
#include "ir/extern_registry.h"
#include "ir/scalar.h"

namespace braid::codegen {
namespace {

using ir::DType;

const std::int64_t* cumulative_flag(const ir::ExternKernel& kernel, const char* name) {
  const auto found = kernel.attributes.find(name);
  return found == kernel.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 1 || kernel.writes.size() != 1) return "takes one tensor and makes one";
  const ir::TensorRef &x = kernel.reads[0], &y = kernel.writes[0];
  const DType type = graph[x.buffer].dtype;
  if (type == DType::f16 || type == DType::bf16 || type == DType::boolean || is_storage(type))
    return "takes float32, float64 and integers";
  if (graph[y.buffer].dtype != type || x.sizes.size() != 3 || x.sizes != y.sizes)
    return "takes a tensor [outer, n, inner] and makes one of its sizes and type";
  for (const char* name : {"exclusive", "product", "reverse"}) {
    if (cumulative_flag(kernel, name) == nullptr) return "needs the integers exclusive, product and reverse";
  }
  return {};
}

// Floats are combined in double and each result is rounded once, as reductions are.
void interpret(ir::ExternCall& call) {
  const auto& kernel = *call.op.as<ir::ExternKernel>();
  const ir::ReduceKind kind =
      *cumulative_flag(kernel, "product") != 0 ? ir::ReduceKind::prod : ir::ReduceKind::sum;
  const bool exclusive = *cumulative_flag(kernel, "exclusive") != 0,
             reverse = *cumulative_flag(kernel, "reverse") != 0;
  const ir::Tensor& x = call.reads[0];
  const std::int64_t n = x.sizes[1], inner = x.sizes[2], bytes = ir::size_of(x.dtype);
  for (std::int64_t lane = 0; lane < x.sizes[0] * inner; ++lane) {
    ir::Scalar carry = ir::neutral(kind, x.dtype);
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = reverse ? n - 1 - k : k;
      const std::int64_t at = ((lane / inner * n + i) * inner + lane % inner) * bytes;
      const ir::Scalar before = carry;
      carry = ir::fold(kind, x.dtype, carry, ir::to_scalar(ir::read_element(x.dtype, x.bytes.data() + at)));
      const ir::Scalar result = ir::rounded(x.dtype, exclusive ? before : carry);
      ir::write_element(x.dtype, call.writes[0].bytes.data() + at, ir::to_literal(x.dtype, result));
    }
  }
}

// An addition or multiplication for each element. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.empty()) return 0;
  double count = 1;
  for (const std::int64_t size : shapes.reads[0]) count *= static_cast<double>(size);
  return count;
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "cumulative",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::reduction,
    .flops = flops,
    .sources = runtime_sources("cumulative"),
}};

}  // namespace
}  // namespace braid::codegen
