// Element types, literals and single instructions of loop bodies as CUDA C++.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/loop_body.h"

namespace braid::codegen::cuda {

// In memory ("uint8_t" for bool) and in a register ("bool").
std::string memory_type(ir::DType dtype);
std::string value_type(ir::DType dtype);
// The type in which a reduction or a sum of products accumulates: float for half types, int for small
// integers.
ir::DType accumulator_dtype(ir::DType dtype);

// A literal of exactly this value.
std::string literal(ir::DType dtype, ir::Literal value);

// "math::convert<To>(text)", or `text` if the types agree.
std::string converted(const std::string& text, ir::DType from, ir::DType to);

// The functor of runtime/device that folds: "Sum". Not for avg.
const char* fold(ir::ReduceKind kind);

// Arithmetic on the operands' C texts: everything except load, constant, index, acc and check_index.
std::string arithmetic(ir::OpCode code, ir::DType operand_type, ir::DType result_type,
                       const std::vector<std::string>& operands);

}  // namespace braid::codegen::cuda
