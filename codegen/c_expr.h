// Size and index expressions as C. Shared by all targets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace braid::codegen {

// The functions that C lacks, as the target's runtime calls them.
struct CExprFunctions {
  std::string floor_div, floor_mod, minimum, maximum;
};

struct CExprStyle {
  std::function<std::string(ir::Expr symbol)> symbol;  // the C text of a dimension, index or value
  std::vector<ir::Expr> extents;  // of the loop around, to prove that operands are not negative
  CExprFunctions functions;
  bool coefficient_last = false;     // n * 4 instead of 4 * n
  bool quotients_bracketed = false;  // (n / 4) wherever it stands, instead of where it is an operand
};

// A C expression without outer parentheses (but see quotients_bracketed). Quotients and remainders of what is
// provably not negative are C's own.
std::string c_expr(ir::Expr e, const CExprStyle& style);
// The same where it is an operand of a multiplication, cast or comparison.
std::string c_operand(ir::Expr e, const CExprStyle& style);

// True if no intermediate result of the C expression can leave 32 bits, whatever the values within bounds.
bool fits_int32(ir::Expr e, ir::Extents extents = {});

}  // namespace braid::codegen
