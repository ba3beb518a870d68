// The rank that runs a program, as integers in expressions: its coordinates along the axes of the mesh.
//
//   mesh [dp=2, tp=4]        rank 4*i + j:  rank(dp) = i, in [0, 1];  rank(tp) = j, in [0, 3]
//
// A coordinate is a symbol of SymbolKind::dim: an integer with bounds that stays the same during a step.
// Unlike a dimension it differs between the ranks of one program. So it may stand in offsets and in the
// indices of loops. It may not stand in sizes, strides, guards or trip counts, nor in the offsets of memory
// that collectives read and write: these are equal on all ranks. The verifier (ir/verifier.h) refuses it
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/comm_group.h"
#include "ir/expr.h"

namespace braid::ir {

// The coordinate along an axis of that size: 0 if the axis has one rank.
Expr coordinate(ExprPool& pool, std::string_view axis, int size);
bool is_coordinate(Expr symbol);
bool depends_on_rank(Expr e);
// Whether `e` consists of dimensions and numbers only, like sizes and strides: fixed during a step and equal
// on all ranks.
bool of_dimensions(Expr e);

// The axis of `mesh` that the coordinate is along; nullopt if the mesh has no axis of that name and size.
std::optional<int> axis_of(const Mesh& mesh, Expr coordinate);
// From one rank to the next along the axis.
int stride_of(const Mesh& mesh, int axis);
int coordinate_of(const Mesh& mesh, int axis, int rank);
// The value of the coordinate on that rank. Requires an axis of the mesh.
std::int64_t coordinate_of(const Mesh& mesh, Expr coordinate, int rank);

// Returns the expression whose value on rank r is values[r], one value per rank of the mesh. It is linear in
// the coordinates or in whole quotients of them, floordiv(rank(tp), k). Returns nullopt if there is none, or
// if the magnitude of a value is above 2^40.
std::optional<Expr> in_coordinates(ExprPool& pool, const Mesh& mesh, std::span<const std::int64_t> values);

}  // namespace braid::ir
