#include "frontend/rank_values.h"

#include <algorithm>
#include <vector>

#include "frontend/model_mesh.h"
#include "ir/coordinate.h"

namespace braid::frontend {

std::optional<Progression> progression_of_ranks(
    ir::Graph& graph, std::int64_t count,
    const std::function<std::int64_t(int rank, std::int64_t k)>& value) {
  if (count < 1) return std::nullopt;
  std::int64_t step = 0;
  if (count > 1 && __builtin_sub_overflow(value(0, 1), value(0, 0), &step)) return std::nullopt;
  std::vector<std::int64_t> firsts;
  for (int r = 0; r < graph.ranks; ++r) {
    firsts.push_back(value(r, 0));
    std::int64_t expected = firsts.back();
    for (std::int64_t k = 0; k < count; ++k) {
      if (value(r, k) != expected) return std::nullopt;
      if (k + 1 < count && __builtin_add_overflow(expected, step, &expected)) return std::nullopt;
    }
  }
  ir::Mesh mesh = graph.mesh;
  if (mesh.empty()) mesh = {{kWorldAxis, graph.ranks}};
  const std::optional<ir::Expr> first = ir::in_coordinates(*graph.pool, mesh, firsts);
  if (!first) return std::nullopt;
  if (ir::depends_on_rank(*first)) graph.mesh = mesh;
  return Progression{*first, step};
}

void follow_rank(Value& value, ir::Graph& graph) {
  if (!value.constant || value.constant->data.same_on_all_ranks()) return;
  if (value.dtype != ir::DType::i64 && value.dtype != ir::DType::i32) return;
  const Tensor& table = *value.constant;
  std::vector<Tensor> of_rank;
  for (int r = 0; r < graph.ranks; ++r)
    of_rank.push_back({table.dtype, table.sizes, {{table.data.of_rank(r)}, table.data.owner}});
  const auto found = progression_of_ranks(graph, table.count(), [&](int rank, std::int64_t k) {
    return integer_at(of_rank[static_cast<std::size_t>(rank)], k);
  });
  if (!found) return;
  if (table.count() == 1)
    value.elements = Elements{table.sizes, {found->first}};
  else
    value.progression = found;
}

}  // namespace braid::frontend
