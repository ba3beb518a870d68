// The extern kernel `top_k` (runtime/host/top_k.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/kernels/source_text.h"
#include "ir/element.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 1 || kernel.writes.size() != 2)
    return "takes one tensor and makes two, values and positions";
  const ir::TensorRef &x = kernel.reads[0], &values = kernel.writes[0], &positions = kernel.writes[1];
  const DType dtype = graph[x.buffer].dtype;
  if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::boolean || is_storage(dtype))
    return "takes float32, float64 and integers";
  if (graph[values.buffer].dtype != dtype || graph[positions.buffer].dtype != DType::i64)
    return "makes values of the type of its operand and int64 positions";
  if (x.sizes.size() != 2 || values.sizes.size() != 2 || values.sizes != positions.sizes ||
      !ir::provably_equal(x.sizes[0], values.sizes[0]))
    return "takes rows [r, n] and makes values and positions [r, k]";
  if (ir::provably_less(x.sizes[1], values.sizes[1])) return "takes at most all elements of a row";
  const auto largest = kernel.attributes.find("largest");
  if (largest == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(largest->second))
    return "needs the attribute largest, an integer";
  return {};
}

// Whether a is smaller; NaN is larger than any number.
bool smaller(DType dtype, const ir::Literal& a, const ir::Literal& b) {
  if (const double* x = std::get_if<double>(&a)) {
    const double y = std::get<double>(b);
    if (std::isnan(*x) || std::isnan(y)) return !std::isnan(*x) && std::isnan(y);
    return *x < y;
  }
  const std::int64_t x = std::get<std::int64_t>(a), y = std::get<std::int64_t>(b);
  if (dtype == DType::u64) return static_cast<std::uint64_t>(x) < static_cast<std::uint64_t>(y);
  return x < y;
}

void interpret(ir::ExternCall& call) {
  const auto& kernel = *call.op.as<ir::ExternKernel>();
  const bool largest = std::get<std::int64_t>(kernel.attributes.at("largest")) != 0;
  const ir::Tensor& x = call.reads[0];
  const std::int64_t rows = x.sizes[0], n = x.sizes[1], k = call.writes[0].sizes[1];
  const std::int64_t bytes = ir::size_of(x.dtype);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<ir::Literal> values;
    for (std::int64_t i = 0; i < n; ++i)
      values.push_back(ir::read_element(x.dtype, x.bytes.data() + (row * n + i) * bytes));
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return largest ? smaller(x.dtype, values[b], values[a]) : smaller(x.dtype, values[a], values[b]);
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::size_t from = order[static_cast<std::size_t>(i)];
      const std::int64_t at = row * k + i;
      ir::write_element(x.dtype, call.writes[0].bytes.data() + at * bytes, values[from]);
      ir::write_element(DType::i64, call.writes[1].bytes.data() + at * 8, static_cast<std::int64_t>(from));
    }
  }
}

// Comparisons of a heap of k elements. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.empty() || shapes.writes.empty() || shapes.writes[0].empty()) return 0;
  double count = 1;
  for (const std::int64_t size : shapes.reads[0]) count *= static_cast<double>(size);
  return count * std::log2(std::max<double>(2, static_cast<double>(shapes.writes[0].back())));
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "top_k",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::reduction,
    .flops = flops,
    .sources = runtime_sources("top_k"),
}};

}  // namespace
}  // namespace braid::codegen
