#include "ir/coordinate.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/expr_internal.h"
#include "ir/text_names.h"

namespace braid::ir {
namespace {

std::string text_of_coordinate(std::string_view axis) { return fmt::format("rank({})", name_text(axis)); }

}  // namespace

Expr coordinate(ExprPool& pool, std::string_view axis, int size) {
  if (size == 1) return 0;
  return detail::coordinate_symbol(pool, text_of_coordinate(axis), size);
}

bool is_coordinate(Expr symbol) {
  return symbol.is_symbol(SymbolKind::dim) && symbol.node()->number == detail::kCoordinate;
}

bool depends_on_rank(Expr e) {
  if (e.is_constant()) return false;
  bool found = false;
  for_each_symbol(e, [&](Expr s) { found |= is_coordinate(s); });
  return found;
}

bool of_dimensions(Expr e) {
  bool only = true;
  for_each_symbol(e, [&](Expr s) { only &= s.is_symbol(SymbolKind::dim) && !is_coordinate(s); });
  return only;
}

std::optional<int> axis_of(const Mesh& mesh, Expr coordinate) {
  const auto found = std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis& axis) {
    return axis.size == bounds(coordinate).max + 1 && text_of_coordinate(axis.name) == coordinate.dim_name();
  });
  if (found == mesh.end()) return std::nullopt;
  return static_cast<int>(found - mesh.begin());
}

int stride_of(const Mesh& mesh, int axis) {
  int stride = 1;
  for (std::size_t k = mesh.size(); --k > static_cast<std::size_t>(axis);) stride *= mesh[k].size;
  return stride;
}

int coordinate_of(const Mesh& mesh, int axis, int rank) {
  return rank / stride_of(mesh, axis) % mesh[static_cast<std::size_t>(axis)].size;
}

std::int64_t coordinate_of(const Mesh& mesh, Expr coordinate, int rank) {
  const std::optional<int> axis = axis_of(mesh, coordinate);
  internal_check(axis.has_value(), "the mesh has no axis of {}", coordinate.dim_name());
  return coordinate_of(mesh, *axis, rank);
}

std::optional<Expr> in_coordinates(ExprPool& pool, const Mesh& mesh, std::span<const std::int64_t> values) {
  internal_check(!values.empty() && mesh_fault(mesh, static_cast<int>(values.size())).empty(),
                 "{} values for the ranks of a mesh", values.size());
  // So that a wrong candidate does not overflow.
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  if (std::ranges::any_of(values, [](std::int64_t v) { return v > kLargest || v < -kLargest; }))
    return std::nullopt;
  // The candidate follows from where the value first changes along each axis through rank 0. It must be right
  // on all ranks.
  Expr e = values[0];
  for (std::size_t k = 0; k < mesh.size(); ++k) {
    const auto stride = static_cast<std::size_t>(stride_of(mesh, static_cast<int>(k)));
    for (int at = 1; at < mesh[k].size; ++at) {
      const std::int64_t step = values[static_cast<std::size_t>(at) * stride] - values[0];
      if (step == 0) continue;
      e = e + step * floor_div(coordinate(pool, mesh[k].name, mesh[k].size), at);
      break;
    }
  }
  for (std::size_t r = 0; r < values.size(); ++r) {
    const auto on_rank = [&](Expr s) { return coordinate_of(mesh, s, static_cast<int>(r)); };
    if (evaluate(e, on_rank) != values[r]) return std::nullopt;
  }
  return e;
}

}  // namespace braid::ir
