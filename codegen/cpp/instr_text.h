// One instruction of a loop body as a C++ expression.
#pragma once

#include <string>
#include <vector>

#include "ir/loop_body.h"

namespace braid::codegen::cpp {

// For arithmetic: everything except load, constant, index, acc and check_index. `operands` are the texts of
// the values, one token each; `exponent` is the second operand of pow if it is constant.
std::string arithmetic(const ir::Instr& instr, ir::DType operand_dtype,
                       const std::vector<std::string>& operands, std::optional<double> exponent);

// The approximate cost in simple operations.
int work_of(const ir::Instr& instr);

}  // namespace braid::codegen::cpp
