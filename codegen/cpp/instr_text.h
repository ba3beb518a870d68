// One instruction of a loop body as a C++ expression.
#pragma once

#include <string>
#include <vector>

#include "ir/loop_body.h"

namespace braid::codegen::cpp {

// For arithmetic: everything but load, constant, index, acc and check_index. `operands` are the texts of the
// values, each one token; `exponent` is the constant second operand of pow, if it is one.
std::string arithmetic(const ir::Instr& instr, ir::DType operand_dtype,
                       const std::vector<std::string>& operands, std::optional<double> exponent);

// About how many simple operations it costs.
int work_of(const ir::Instr& instr);

}  // namespace braid::codegen::cpp
