// The extern kernel `scatter` (runtime/host/scatter.h).
#include <algorithm>
#include <iterator>

#include "codegen/kernels/source_text.h"
#include "ir/element.h"
#include "ir/extern_registry.h"
#include "ir/scalar.h"

namespace braid::codegen {
namespace {

using ir::DType;

constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};

const std::string* scatter_reduction(const ir::ExternKernel& kernel) {
  const auto found = kernel.attributes.find("reduction");
  return found == kernel.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 3 || kernel.writes.size() != 1)
    return "takes data, positions and updates and makes one tensor";
  const ir::TensorRef &data = kernel.reads[0], &positions = kernel.reads[1], &updates = kernel.reads[2],
                      &out = kernel.writes[0];
  const DType type = graph[out.buffer].dtype;
  const std::string* reduction = scatter_reduction(kernel);
  if (reduction == nullptr ||
      std::find(std::begin(kReductions), std::end(kReductions), *reduction) == std::end(kReductions))
    return "needs the attribute reduction, one of none, add, mul, max and min";
  if (graph[data.buffer].dtype != type || graph[updates.buffer].dtype != type ||
      graph[positions.buffer].dtype != DType::i64)
    return "takes data and updates of the type of its result, and int64 positions";
  if (is_storage(type)) return "takes no storage types";
  if (*reduction != "none" && (type == DType::boolean || type == DType::f16 || type == DType::bf16))
    return "combines float32, float64 and integers";
  if (data.sizes.size() != 3 || out.sizes != data.sizes || positions.sizes.size() != 2 ||
      updates.sizes.size() != 3 || !ir::provably_equal(positions.sizes[0], data.sizes[0]) ||
      !ir::provably_equal(updates.sizes[0], data.sizes[0]) ||
      !ir::provably_equal(updates.sizes[1], positions.sizes[1]) ||
      !ir::provably_equal(updates.sizes[2], data.sizes[2]))
    return "takes data [b, r, w], positions [b, n] and updates [b, n, w]";
  return {};
}

// Element by element. Floats are combined in double and rounded once, as reductions are.
void interpret(ir::ExternCall& call) {
  const std::string& reduction = *scatter_reduction(*call.op.as<ir::ExternKernel>());
  const ir::ReduceKind kind = reduction == "mul"   ? ir::ReduceKind::prod
                              : reduction == "max" ? ir::ReduceKind::max
                              : reduction == "min" ? ir::ReduceKind::min
                                                   : ir::ReduceKind::sum;
  const DType type = call.reads[0].dtype;
  const std::int64_t bytes = ir::size_of(type), blocks = call.reads[0].sizes[0],
                     rows = call.reads[0].sizes[1], width = call.reads[0].sizes[2],
                     n = call.reads[1].sizes[1];
  const auto element = [&](const ir::Tensor& tensor, std::int64_t at) {
    return ir::to_scalar(ir::read_element(type, tensor.bytes.data() + at * bytes));
  };
  const std::vector<std::int64_t> positions = call.reads[1].values<std::int64_t>();
  std::vector<ir::Scalar> out;
  for (std::int64_t at = 0; at < blocks * rows * width; ++at) out.push_back(element(call.reads[0], at));
  for (std::int64_t update = 0; update < blocks * n; ++update) {
    const std::int64_t row = positions[static_cast<std::size_t>(update)];
    if (row < 0 || row >= rows) continue;
    for (std::int64_t j = 0; j < width; ++j) {
      ir::Scalar& old = out[static_cast<std::size_t>((update / n * rows + row) * width + j)];
      const ir::Scalar value = element(call.reads[2], update * width + j);
      old = reduction == "none" ? value : ir::fold(kind, type, old, value);
    }
  }
  std::byte* to = call.writes[0].bytes.data();
  for (const ir::Scalar& value : out) {
    ir::write_element(type, to, ir::to_literal(type, ir::rounded(type, value)));
    to += bytes;
  }
}

// An operation for each element of an update. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  const std::string* reduction = scatter_reduction(shapes.kernel);
  if (shapes.reads.size() != 3 || reduction == nullptr || *reduction == "none") return 0;
  double count = 1;
  for (const std::int64_t size : shapes.reads[2]) count *= static_cast<double>(size);
  return count;
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "scatter",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = flops,
    .sources = runtime_sources("scatter"),
}};

}  // namespace
}  // namespace braid::codegen
