// The scalar ops of loop bodies, one row each. Enum, text, typing, costs and what lowering may recompute
// follow from it. Besides this row, an op has a value (ir/scalar.cc) and a row in each target's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace braid::ir {

// Which types the operands may have. All operands of an instruction have one type, except the condition of
// `where`.
enum class OperandTypes : std::uint8_t { any, numeric, floating, integer, boolean };
// The type of the value defined: given by the instruction, that of the last operand, or bool.
enum class ResultType : std::uint8_t { given, same, boolean };
// Whether each user of a shared body may recompute it.
enum class Repetition : std::uint8_t { cheap, dear };

// OP(code, name in the text format, operands, their types, type of the result, flops, repetition). A load's
// mask is an optional operand: elements where it is false are not read and yield 0.
// clang-format off
#define BRAID_SCALAR_OPS(OP)                                                                                 \
  OP(load,        "load",        0, any,      given,   0,  cheap) /* buffer[index] */                        \
  OP(constant,    "constant",    0, any,      given,   0,  cheap) /* literal */                              \
  OP(index,       "index",       0, any,      given,   0,  cheap) /* the integer value of `index` */         \
  OP(acc,         "acc",         0, any,      given,   0,  cheap) /* of the GEMM, in its epilogue */         \
  OP(check_index, "check_index", 1, integer,  same,    0,  cheap) /* fails and yields 0 outside [0, index) */\
  OP(cast,        "cast",        1, any,      given,   1,  cheap)                                            \
  OP(bitcast,     "bitcast",     1, any,      given,   0,  cheap) /* same bits, sizes are equal */           \
  OP(neg,         "neg",         1, numeric,  same,    1,  cheap)                                            \
  OP(abs,         "abs",         1, numeric,  same,    1,  cheap)                                            \
  OP(sign,        "sign",        1, numeric,  same,    1,  cheap)                                            \
  OP(exp,         "exp",         1, floating, same,    10, dear)                                             \
  OP(expm1,       "expm1",       1, floating, same,    10, dear)  /* exp(x) - 1, exact near 0 */             \
  OP(log,         "log",         1, floating, same,    10, dear)                                             \
  OP(log1p,       "log1p",       1, floating, same,    10, dear)  /* log(1 + x), exact near 0 */             \
  OP(sqrt,        "sqrt",        1, floating, same,    10, dear)                                             \
  OP(rsqrt,       "rsqrt",       1, floating, same,    10, dear)                                             \
  OP(reciprocal,  "reciprocal",  1, floating, same,    10, cheap)                                            \
  OP(erf,         "erf",         1, floating, same,    10, dear)                                             \
  OP(tanh,        "tanh",        1, floating, same,    10, dear)                                             \
  OP(sigmoid,     "sigmoid",     1, floating, same,    10, dear)                                             \
  OP(sin,         "sin",         1, floating, same,    10, dear)                                             \
  OP(cos,         "cos",         1, floating, same,    10, dear)                                             \
  OP(tan,         "tan",         1, floating, same,    10, dear)                                             \
  OP(asin,        "asin",        1, floating, same,    10, dear)                                             \
  OP(acos,        "acos",        1, floating, same,    10, dear)                                             \
  OP(atan,        "atan",        1, floating, same,    10, dear)                                             \
  OP(sinh,        "sinh",        1, floating, same,    10, dear)                                             \
  OP(cosh,        "cosh",        1, floating, same,    10, dear)                                             \
  OP(asinh,       "asinh",       1, floating, same,    10, dear)                                             \
  OP(acosh,       "acosh",       1, floating, same,    10, dear)                                             \
  OP(atanh,       "atanh",       1, floating, same,    10, dear)                                             \
  OP(floor,       "floor",       1, floating, same,    1,  cheap)                                            \
  OP(ceil,        "ceil",        1, floating, same,    1,  cheap)                                            \
  OP(round,       "round",       1, floating, same,    1,  cheap)                                            \
  OP(is_nan,      "is_nan",      1, floating, boolean, 1,  cheap)                                            \
  OP(is_inf,      "is_inf",      1, floating, boolean, 1,  cheap)                                            \
  OP(logical_not, "not",         1, boolean,  same,    1,  cheap)                                            \
  OP(bit_not,     "bit_not",     1, integer,  same,    1,  cheap)                                            \
  OP(add,         "add",         2, numeric,  same,    1,  cheap)                                            \
  OP(sub,         "sub",         2, numeric,  same,    1,  cheap)                                            \
  OP(mul,         "mul",         2, numeric,  same,    1,  cheap)                                            \
  OP(div,         "div",         2, numeric,  same,    10, cheap) /* integers: towards zero, as ONNX Div */  \
  OP(mod,         "mod",         2, numeric,  same,    10, cheap) /* sign of the divisor: ONNX Mod, fmod=0 */\
  OP(fmod,        "fmod",        2, numeric,  same,    10, cheap) /* sign of the dividend, as C */           \
  OP(pow,         "pow",         2, numeric,  same,    10, dear)                                             \
  OP(min,         "min",         2, any,      same,    1,  cheap) /* min and max propagate NaN */            \
  OP(max,         "max",         2, any,      same,    1,  cheap)                                            \
  OP(logical_and, "and",         2, boolean,  same,    1,  cheap)                                            \
  OP(logical_or,  "or",          2, boolean,  same,    1,  cheap)                                            \
  OP(logical_xor, "xor",         2, boolean,  same,    1,  cheap)                                            \
  OP(bit_and,     "bit_and",     2, integer,  same,    1,  cheap)                                            \
  OP(bit_or,      "bit_or",      2, integer,  same,    1,  cheap)                                            \
  OP(bit_xor,     "bit_xor",     2, integer,  same,    1,  cheap)                                            \
  OP(shift_left,  "shift_left",  2, integer,  same,    1,  cheap) /* by all bits or more: 0 */               \
  OP(shift_right, "shift_right", 2, integer,  same,    1,  cheap) /* by all bits or more: 0 or -1 */         \
  OP(eq,          "eq",          2, any,      boolean, 1,  cheap)                                            \
  OP(ne,          "ne",          2, any,      boolean, 1,  cheap)                                            \
  OP(lt,          "lt",          2, numeric,  boolean, 1,  cheap)                                            \
  OP(le,          "le",          2, numeric,  boolean, 1,  cheap)                                            \
  OP(gt,          "gt",          2, numeric,  boolean, 1,  cheap)                                            \
  OP(ge,          "ge",          2, numeric,  boolean, 1,  cheap)                                            \
  OP(where,       "where",       3, any,      same,    1,  cheap) /* condition ? a : b */
// clang-format on

enum class OpCode : std::uint8_t {
#define BRAID_CODE(code, ...) code,
  BRAID_SCALAR_OPS(BRAID_CODE)
#undef BRAID_CODE
};

struct OpRow {
  OpCode code;
  std::string_view name;
  int operands;  // load: 0, or 1 with a mask
  OperandTypes operand_types;
  ResultType result_type;
  int flops;
  Repetition repetition;
};

inline constexpr OpRow kOps[] = {
#define BRAID_ROW(code, name, operands, types, result, flops, repetition) \
  {OpCode::code, name, operands, OperandTypes::types, ResultType::result, flops, Repetition::repetition},
    BRAID_SCALAR_OPS(BRAID_ROW)
#undef BRAID_ROW
};
inline constexpr int kOpCodeCount = static_cast<int>(std::size(kOps));

// The row of an op in a table with one row per op: kOps or a target's own.
template <class Row>
constexpr const Row& row_of(OpCode code, const Row (&table)[kOpCodeCount]) {
  return table[static_cast<std::size_t>(code)];
}
constexpr const OpRow& row_of(OpCode code) { return row_of(code, kOps); }

// Assert this for every such table, so that a missing or misplaced row does not compile.
template <class Row, std::size_t kRows>
constexpr bool has_every_op(const Row (&table)[kRows]) {
  for (std::size_t k = 0; k < kRows; ++k) {
    if (table[k].code != static_cast<OpCode>(k)) return false;
  }
  return kRows == kOpCodeCount;
}
static_assert(has_every_op(kOps));

}  // namespace braid::ir
