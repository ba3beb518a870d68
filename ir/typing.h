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
    shape,     // sizes that do not agree
    structure  // anything else, e.g. a wait that does not belong to a collective
  };
  Kind kind;
  std::string message;
};

// The context of a body: how many loop indices it may use and the type of `acc` (epilogues only).
struct BodyContext {
  std::size_t indices = 0;
  std::optional<DType> acc;
};

// Whether the table column `types` admits operands of that type.
bool accepts(OperandTypes types, DType dtype);

// The type in which a GEMM of such operands accumulates: f32 (f64 for f64, i32 for integers).
DType accumulator_of(DType operand);

// The type of the value that the instruction defines, derived from its operands. nullopt if only the
// instruction itself determines it (load, constant, index, acc, cast).
std::optional<DType> result_type(const LoopBody& body, const Instr& instr);

// Checks instruction k, given that those before it are valid.
std::optional<TypeError> check_instr(const Graph& graph, const LoopBody& body, std::size_t k,
                                     const BodyContext& context);
// Checks the symbols of an index expression at instruction k (k = body.instrs.size(): after the whole body).
std::optional<TypeError> check_index_expr(const LoopBody& body, Expr e, std::size_t k,
                                          const BodyContext& context);
// Checks types, ranks and counts of one operation. Sizes are wrong only if they provably differ.
std::optional<TypeError> check_operation(const Graph& graph, OpId op);

}  // namespace braid::ir
