// Types of loop bodies and kernels: one set of rules for parser and verifier.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace braid::ir {

struct TypeError {
  enum class Kind {
    type,      // operands or result of the wrong type
    operands,  // wrong number of operands
    index,     // an index expression with an unknown loop index, or a value that is not an integer defined
               // before
    shape,     // sizes that do not fit
    structure  // anything else, e.g. a wait that does not belong to a collective
  };
  Kind kind;
  std::string message;
};

// Around a body: how many loop indices it may use, and the type of `acc` (epilogues only).
struct BodyContext {
  std::size_t indices = 0;
  std::optional<DType> acc;
};

// Whether operands of that type fit the column of the table.
bool accepts(OperandTypes types, DType dtype);

// The type that a GEMM of such operands accumulates in: f32 (f64 for f64, i32 for integers).
DType accumulator_of(DType operand);

// The type of value the instruction defines, as its operands say. nullopt where only the instruction itself
// says it (load, constant, index, acc, cast).
std::optional<DType> result_type(const LoopBody& body, const Instr& instr);

// Checks instruction k, given that those before are right.
std::optional<TypeError> check_instr(const Graph& graph, const LoopBody& body, std::size_t k,
                                     const BodyContext& context);
// Checks symbols of an index expression that stands at instruction k (all of the body: k =
// body.instrs.size()).
std::optional<TypeError> check_index_expr(const LoopBody& body, Expr e, std::size_t k,
                                          const BodyContext& context);
// Checks types, ranks and counts of one operation. Sizes only where they are provably different.
std::optional<TypeError> check_operation(const Graph& graph, OpId op);

}  // namespace braid::ir
