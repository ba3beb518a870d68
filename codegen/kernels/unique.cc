// The extern kernel `unique` (runtime/host/unique.h).
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
  if (kernel.reads.size() != 1 || kernel.writes.size() != 5) return "takes one tensor and makes five";
  const ir::TensorRef& x = kernel.reads[0];
  const DType type = graph[x.buffer].dtype;
  if (type == DType::f16 || type == DType::bf16 || type == DType::boolean || is_storage(type))
    return "takes float32, float64 and integers";
  if (x.sizes.size() != 3) return "takes a tensor [outer, n, inner]";
  for (std::size_t k = 0; k < kernel.writes.size(); ++k) {
    const ir::TensorRef& ref = kernel.writes[k];
    if (graph[ref.buffer].dtype != (k == 0 ? type : DType::i64))
      return "makes values of the type of its operand, and int64";
    const bool fits = k == 4   ? ref.sizes.empty()
                      : k == 0 ? ref.sizes.size() == 1 && ir::provably_equal(ref.sizes[0], ir::numel(x.sizes))
                               : ref.sizes.size() == 1 && ir::provably_equal(ref.sizes[0], x.sizes[1]);
    if (!fits) return "makes values [outer * n * inner], first, counts and inverse [n], and a number";
  }
  const auto sorted = kernel.attributes.find("sorted");
  if (sorted == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(sorted->second))
    return "needs the attribute sorted, an integer";
  return {};
}

// -1, 0 or 1; NaN is above all numbers and equals itself.
int order_of(DType dtype, const ir::Literal& a, const ir::Literal& b) {
  if (const double* x = std::get_if<double>(&a)) {
    const double y = std::get<double>(b);
    if (std::isnan(*x) || std::isnan(y))
      return static_cast<int>(std::isnan(*x)) - static_cast<int>(std::isnan(y));
    return *x < y ? -1 : *x > y;
  }
  const std::int64_t x = std::get<std::int64_t>(a), y = std::get<std::int64_t>(b);
  if (dtype == DType::u64) return static_cast<std::uint64_t>(x) < static_cast<std::uint64_t>(y) ? -1 : x != y;
  return x < y ? -1 : x > y;
}

void interpret(ir::ExternCall& call) {
  const ir::Tensor& x = call.reads[0];
  const std::int64_t outer = x.sizes[0], n = x.sizes[1], inner = x.sizes[2], bytes = ir::size_of(x.dtype);
  const auto slice = [&](std::int64_t k) {
    std::vector<ir::Literal> elements;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i)
        elements.push_back(ir::read_element(x.dtype, x.bytes.data() + ((o * n + k) * inner + i) * bytes));
    }
    return elements;
  };
  const auto compare = [&](const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (const int c = order_of(x.dtype, a[k], b[k]); c != 0) return c;
    }
    return 0;
  };
  struct Group {
    std::vector<ir::Literal> value;
    std::vector<std::int64_t> members;
  };
  std::vector<Group> groups;
  for (std::int64_t k = 0; k < n; ++k) {
    std::vector<ir::Literal> value = slice(k);
    const auto known =
        std::ranges::find_if(groups, [&](const Group& g) { return compare(g.value, value) == 0; });
    if (known == groups.end())
      groups.push_back({std::move(value), {k}});
    else
      known->members.push_back(k);
  }
  if (std::get<std::int64_t>(call.op.as<ir::ExternKernel>()->attributes.at("sorted")) != 0)
    std::ranges::sort(groups, [&](const Group& a, const Group& b) { return compare(a.value, b.value) < 0; });
  const auto set = [&](std::size_t k, std::int64_t at, std::int64_t number) {
    ir::write_element(DType::i64, call.writes[k].bytes.data() + at * 8, number);
  };
  const auto found = std::ssize(groups);
  for (std::int64_t g = 0; g < found; ++g) {
    const Group& group = groups[static_cast<std::size_t>(g)];
    set(1, g, group.members.front());
    set(2, g, std::ssize(group.members));
    for (const std::int64_t member : group.members) set(3, member, g);
    for (std::int64_t e = 0; e < outer * inner; ++e) {
      const std::int64_t at = (e / inner * found + g) * inner + e % inner;
      ir::write_element(x.dtype, call.writes[0].bytes.data() + at * bytes,
                        group.value[static_cast<std::size_t>(e)]);
    }
  }
  set(4, 0, found);
}

// The comparisons of a sort. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.empty() || shapes.reads[0].size() != 3) return 0;
  const auto n = static_cast<double>(shapes.reads[0][1]);
  return n * std::log2(std::max(2.0, n));
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "unique",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = flops,
    .sources = host_sources("unique"),
}};

}  // namespace
}  // namespace braid::codegen
