// One instruction of a loop body as a C++ expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/loop_body.h"

namespace braid::codegen::cpp {

// For arithmetic: everything except load, constant, index, acc and check_index. `operands` are the texts of
// the values, one token each; `exponent` is the second operand of pow if it is constant.
std::string arithmetic(const ir::Instr& instr, ir::DType operand_dtype,
                       const std::vector<std::string>& operands, std::optional<double> exponent);

// The same before it is rounded to a narrow float type, and the function that rounds; empty if nothing has to
// be rounded. A store rounds by itself.
struct Arithmetic {
  std::string text;
  std::string_view rounding;

  std::string rounded() const { return rounding.empty() ? text : std::string(rounding) + "(" + text + ")"; }
};
Arithmetic unrounded_arithmetic(const ir::Instr& instr, ir::DType operand_dtype,
                                const std::vector<std::string>& operands, std::optional<double> exponent);

// The approximate cost in simple operations.
int work_of(const ir::Instr& instr);

}  // namespace braid::codegen::cpp
