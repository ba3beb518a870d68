#include "passes/product_epilogue.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ir/effects.h"
#include "ir/id_vector.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "passes/reshape_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

// Returns the dimensions of the result in memory order: a convolution has its channels last in `out`, but
// often not in memory.
std::vector<std::size_t> memory_order(const TensorRef& out) {
  std::vector<std::size_t> order(out.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  sort_by_stride(order, out.strides);
  return order;
}

// The indices of a loop over the result's elements in memory order, as expressions over those of `out`.
std::optional<std::vector<Expr>> in_memory_order(const Graph& graph, const Loops& loops,
                                                 const TensorRef& out) {
  std::vector<Expr> sizes, symbols;
  for (std::size_t d : memory_order(out)) {
    sizes.push_back(out.sizes[d]);
    symbols.push_back(graph.pool->index(d));
  }
  std::optional<std::vector<Expr>> indices = reindex(loops.sizes, sizes, *graph.pool);
  if (indices) {
    for (Expr& index : *indices) index = substitute_indices(index, symbols);
  }
  return indices;
}

// The product with the loop as its epilogue, if `indices` are the loop's, over those of the result.
std::optional<WithEpilogue> at_indices(const Graph& graph, const Product& product, const Loops& loops,
                                       BufferId target, const std::optional<std::vector<Expr>>& indices) {
  if (!indices) return std::nullopt;
  const std::vector<Expr>& sizes = product.out.sizes;
  const auto at = [&](Expr e) { return simplify(substitute_indices(e, *indices), sizes); };
  std::optional<TensorRef> out = strided_view(graph, target, at(loops.store_index), sizes);
  if (!out) return std::nullopt;
  if (may_overlap(graph, *out, product.a) || may_overlap(graph, *out, product.b)) return std::nullopt;

  const BufferId result = product.out.buffer;
  const StorageId memory = root_storage(graph, result);
  if (root_storage(graph, target) == memory) return std::nullopt;
  const MemoryRegion written = region(graph, result);
  const Expr own = simplify(element_of(graph, product.out), sizes);
  BodyBuilder body(*graph.pool);
  std::vector<Expr> same;
  for (std::size_t k = 0; k < sizes.size(); ++k) same.push_back(graph.pool->index(k));
  const ValueId before = product.epilogue ? body.inline_body(*product.epilogue, same)
                                          : body.acc(accumulator_of(graph[product.a.buffer].dtype));
  const ValueId value = body.cast(before, graph[result].dtype);
  IdVector<ValueId, ValueId> map(loops.body.instrs.size());
  for (const ValueId k : map.ids()) {
    Instr instr = in_terms_of(
        loops.body[k], *graph.pool, [&](ValueId v) { return map[v]; }, *indices);
    instr.index = simplify(instr.index, sizes);
    if (instr.code == OpCode::load && root_storage(graph, instr.buffer) == memory) {
      const std::int64_t item = size_of(graph[result].dtype);
      const auto shift = divide_exactly(region(graph, instr.buffer).offset - written.offset, item);
      if (graph[instr.buffer].dtype != graph[result].dtype || !shift) return std::nullopt;
      if (!(simplify(instr.index + *shift, sizes) == own)) return std::nullopt;
      map[k] = value;
      if (!instr.operands.empty()) {
        map[k] = body.where(instr.operands[0], value, body.constant_of(instr.dtype, 0));
      }
      continue;
    }
    if (instr.code == OpCode::load && may_overlap(graph, whole(graph, instr.buffer), *out))
      return std::nullopt;
    map[k] = body.add(std::move(instr));
  }
  const ValueId last = map[loops.body.result];
  return WithEpilogue{std::move(*out), body.finish(body.cast(last, graph[target].dtype))};
}

}  // namespace

std::optional<WithEpilogue> with_epilogue(const Graph& graph, const Product& product, const Loops& loops,
                                          BufferId target) {
  const TensorRef& out = product.out;
  if (auto same = at_indices(graph, product, loops, target, reindex(loops.sizes, out.sizes, *graph.pool)))
    return same;
  return at_indices(graph, product, loops, target, in_memory_order(graph, loops, out));
}

}  // namespace braid::passes
