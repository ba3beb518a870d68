// When neighbouring elements can move as one pack: they lie side by side, and the first one lies at a multiple of the pack.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace braid::codegen::cuda {

// e = lane + sum of step * index: the steps, which must be multiples of the pack so that e is one wherever the lane is, whatever
// the other indices and values are. nullopt if e is not of that form.
//
//   dim_n*i0 + 16*floordiv(i1, 4) + i2 + 8, lane i2:   {dim_n, 16, 8}
std::optional<std::vector<ir::Expr>> steps_beside(ir::Expr e, ir::Expr lane);

// Adds to `multiples` the steps of which symbols do not prove that they are multiples of `pack`, a power of two. False, and
// nothing is added, if a step is none for any values of the dims.
bool need_multiples(const std::vector<ir::Expr>& steps, std::int64_t pack, std::vector<ir::Expr>& multiples);

}  // namespace braid::codegen::cuda
