// Size and index expressions as C. Shared by all targets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace braid::codegen {

// The target runtime's names for functions that C lacks.
struct CExprFunctions {
  std::string floor_div, floor_mod, minimum, maximum;
};

struct CExprStyle {
  std::function<std::string(ir::Expr symbol)> symbol;  // the C text of a dimension, index or value
  std::vector<ir::Expr> extents;  // of the enclosing loop, to prove that operands are not negative
  CExprFunctions functions;
  bool coefficient_last = false;     // n * 4 instead of 4 * n
  bool quotients_bracketed = false;  // always (n / 4), instead of only where it is an operand
  // The name of what has the value of a part of the expression, or of all of it; nullopt: its own text.
  std::function<std::optional<std::string>(ir::Expr)> named = {};
};

// A C expression without outer parentheses (but see quotients_bracketed). Quotients and remainders of
// provably non-negative operands use C's operators.
std::string c_expr(ir::Expr e, const CExprStyle& style);
// The same as an operand of a multiplication, cast or comparison.
std::string c_operand(ir::Expr e, const CExprStyle& style);

// An index that is the value of an instruction, which may be shifted.
struct ValueIndex {
  int value = 0;
  std::int64_t shift = 0;

  // `text` is the value; its type has at most 16 bits, so that compilers gather vectors by 32 bits each.
  std::string as_int32(const std::string& text) const;
};
// nullopt if the expression is another one.
std::optional<ValueIndex> value_index(ir::Expr e);

// Whether no intermediate result of the C expression can overflow 32 bits for any values within bounds.
bool fits_int32(ir::Expr e, ir::Extents extents = {});

}  // namespace braid::codegen
