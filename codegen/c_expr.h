// Size and index expressions as C, and names of the IR as C identifiers. Shared by all targets.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/expr.h"

namespace braid::codegen {

struct CExprStyle {
  std::function<std::string(ir::Expr symbol)> symbol;  // the C text of a dimension, index or value
  std::vector<ir::Expr> extents;  // of the loop around, to prove that operands are not negative
  // Before floor_div, floor_mod, minimum and maximum, the functions that C lacks: "math::".
  std::string helpers;
};

// A C expression without outer parentheses. Quotients and remainders of what is provably not negative are C's
// own.
std::string c_expr(ir::Expr e, const CExprStyle& style);
// The same where it is an operand of a multiplication, cast or comparison.
std::string c_operand(ir::Expr e, const CExprStyle& style);

// True if no intermediate result of the C expression can leave 32 bits, whatever the values within bounds.
bool fits_int32(ir::Expr e, ir::Extents extents = {});

// "/layers.0/mlp/Gelu" -> "layers_0_mlp_Gelu"; never empty, never starting with a digit.
std::string c_identifier(std::string_view name);
// Text between quotes.
std::string c_string(std::string_view text);
// What may stand in a one-line comment: control characters and a backslash at the end would break out of it.
std::string c_comment(std::string_view text);

// Identifiers of one scope.
class CNames {
 public:
  // `wanted`, or with _2, _3, ... appended.
  std::string unique(std::string_view wanted);

 private:
  std::set<std::string> taken_;
};

}  // namespace braid::codegen
