// Decides when neighbouring elements can move as one pack: they are adjacent, and the first one lies at a
// multiple of the pack.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace braid::codegen::cuda {

// Returns the steps of e = lane + sum of step * index. They must be multiples of the pack: then e is a
// multiple wherever the lane is, for all other indices and values. Returns nullopt if e is not of that form.
//
//   dim_n*i0 + 16*floordiv(i1, 4) + i2 + 8, lane i2:   {dim_n, 16, 8}
std::optional<std::vector<ir::Expr>> steps_beside(ir::Expr e, ir::Expr lane);

// Adds to `multiples` the steps that symbols do not prove to be multiples of `pack`, a power of two. Returns
// false, and adds nothing, if a step is no multiple for any values of the dims.
bool need_multiples(const std::vector<ir::Expr>& steps, std::int64_t pack, std::vector<ir::Expr>& multiples);

}  // namespace braid::codegen::cuda
