// Types of values in loop bodies: one set of rules for parser and verifier. ir/operation_check.h has those of
// operations.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

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
template <class... Args>
std::optional<TypeError> wrong(TypeError::Kind kind, fmt::format_string<Args...> format, Args&&... args) {
  return TypeError{kind, fmt::format(format, std::forward<Args>(args)...)};
}
// For types whose elements are only moved.
std::optional<TypeError> no_arithmetic(std::string_view what, DType dtype);

// Whether the graph has the buffer.
bool is_buffer(const Graph& graph, BufferId buffer);
// Whether the buffer has elements that can be loaded.
bool has_memory(const Graph& graph, BufferId buffer);

// The context of a body: how many loop indices it may use and the type of `acc` (epilogues only).
struct BodyContext {
  std::size_t indices = 0;
  std::optional<DType> acc;
};

// Whether the table column `types` admits operands of that type.
bool accepts(OperandTypes types, DType dtype);

// Returns the type in which a product of such operands is accumulated: f32 for floats of up to 32 bits, i32
// for integers of up to 32 bits, the operand's own type for f64, i64 and u64.
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

}  // namespace braid::ir
