#include "ir/strided_view.h"

#include <algorithm>
#include <utility>

#include "ir/coordinate.h"

namespace braid::ir {

namespace {

bool is_larger(Expr a, Expr b) {
  if (a == b || provably_non_negative(b - a)) return false;
  if (provably_non_negative(a - b)) return true;
  const std::optional<Expr> times = b.is_constant(0) ? std::nullopt : divide_exactly(a, b);
  return times && provably_non_negative(*times);
}

}  // namespace

Expr strided_index(ExprPool& pool, std::span<const Expr> sizes, std::span<const Expr> strides) {
  Expr index = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!sizes[k].is_constant(1)) index = index + pool.index(k) * strides[k];
  }
  return index;
}

Expr element_of(const Graph& graph, const TensorRef& view) {
  return view.offset + strided_index(*graph.pool, view.sizes, view.strides);
}

void sort_by_stride(std::span<std::size_t> dimensions, std::span<const Expr> strides) {
  // std::stable_sort takes no relation under which some strides cannot be compared.
  for (auto to = dimensions.begin(); to != dimensions.end(); ++to) {
    const auto largest = std::find_if(to, dimensions.end(), [&](std::size_t d) {
      return std::none_of(to, dimensions.end(),
                          [&](std::size_t other) { return is_larger(strides[other], strides[d]); });
    });
    if (largest != dimensions.end()) std::rotate(to, largest, largest + 1);
  }
}

std::optional<TensorRef> strided_view(const Graph& graph, BufferId buffer, Expr at, std::vector<Expr> sizes) {
  TensorRef view{buffer, at, std::move(sizes), {}};
  for (std::size_t k = 0; k < view.sizes.size(); ++k) {
    const Expr index = graph.pool->index(k);
    const std::optional<Expr> stride = stride_of(view.offset, index);
    if (!stride || !of_dimensions(*stride)) return std::nullopt;
    view.strides.push_back(*stride);
    view.offset = view.offset - index * *stride;
  }
  bool fixed = true;  // during a step
  for_each_symbol(view.offset, [&](Expr s) { fixed = fixed && s.is_symbol(SymbolKind::dim); });
  return fixed ? std::optional(view) : std::nullopt;
}

}  // namespace braid::ir
