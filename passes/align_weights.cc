#include "passes/align_weights.h"

#include <optional>
#include <utility>
#include <vector>

#include "passes/pack_rows.h"
#include "passes/replace_operations.h"

namespace braid::passes {
namespace {

using namespace ir;

// Returns `rows`, as RowPacker made them, in the shape of the product operand `given`.
TensorRef as_operand(TensorRef rows, const TensorRef& given) {
  const std::size_t n = given.sizes.size();
  std::swap(rows.strides[n - 2], rows.strides[n - 1]);
  rows.sizes = given.sizes;
  for (std::size_t d = 0; d + 2 < n; ++d) {
    if (given.strides[d].is_constant(0)) rows.strides[d] = 0;
  }
  return rows;
}

bool is_multiple(Expr bytes) { return bytes.is_constant() && bytes.constant() % kRowUnit == 0; }

bool is_aligned(const Graph& graph, const TensorRef& b) {
  const std::size_t n = b.sizes.size();
  const std::int64_t item = size_of(graph[b.buffer].dtype);
  if (!is_multiple(region(graph, b.buffer).offset + b.offset * item)) return false;
  const auto fits = [&](std::size_t inner, std::size_t outer) {
    return b.strides[inner].is_constant(1) &&
           (b.sizes[outer].is_constant(1) || is_multiple(b.strides[outer] * item));
  };
  return fits(n - 1, n - 2) || fits(n - 2, n - 1);
}

}  // namespace

bool AlignWeights::run(Schedule& schedule) const {
  Graph& graph = schedule.graph;
  RowPacker packer(graph);
  return replace_operations(schedule, [&](OpId id) -> std::optional<std::vector<OpId>> {
    Gemm* product = graph[id].as<Gemm>();
    if (product == nullptr) return std::nullopt;
    const DType type = graph[product->b.buffer].dtype;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) return std::nullopt;
    const TensorRef given = product->b, from = transposed_matrices(given);
    if (is_aligned(graph, given) || !packer.is_known(from)) return std::nullopt;
    std::vector<OpId> none;
    const TensorRef rows = packer.rows(from, from.sizes.size() - 1, none);
    graph[id].as<Gemm>()->b = as_operand(rows, given);
    return std::vector{id};
  });
}

}  // namespace braid::passes
