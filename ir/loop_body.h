// Loop bodies: what a fused loop computes at one point of its iteration space.
//
// A body is a list of instructions in SSA form: instruction k defines value %k. It loads from buffers at
// index expressions over the loop indices i0, i1, ..., computes, and names one value as its result; the
// enclosing kernel determines where that value goes (stored, reduced, applied to a GEMM's accumulator). A
// body is a plain value: it can be printed, parsed, hashed, compared and interpreted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/expr.h"
#include "ir/ids.h"
#include "ir/op_table.h"

namespace braid::ir {

std::string_view to_string(OpCode code);
std::optional<OpCode> opcode_from_string(std::string_view name);

// Integers and bool are held as int64 (u64 by bit pattern), floats as double.
using Literal = std::variant<std::int64_t, double>;

struct Instr {
  OpCode code = OpCode::constant;
  DType dtype = DType::f32;  // of the value defined
  std::vector<ValueId> operands;
  Literal literal = std::int64_t{0};  // constant
  BufferId buffer;                    // load
  Expr index = 0;  // load: element offset from the buffer's first element; else see ir/op_table.h

  friend bool operator==(const Instr&, const Instr&) = default;
};

struct LoopBody {
  std::vector<Instr> instrs;
  ValueId result;

  const Instr& operator[](ValueId v) const { return instrs[static_cast<std::size_t>(v.index)]; }
  // The type that an instruction computes in: that of its last operand (the first of `where` is its
  // condition).
  DType operand_dtype(const Instr& instr) const { return (*this)[instr.operands.back()].dtype; }
  DType result_dtype() const { return (*this)[result].dtype; }
  friend bool operator==(const LoopBody&, const LoopBody&) = default;
};

// Rewrites an instruction of one body for another body: value v becomes value(v), and index k becomes
// indices[k] if `indices` has that many.
Instr in_terms_of(Instr instr, ExprPool& pool, const std::function<ValueId(ValueId)>& value,
                  std::span<const Expr> indices = {});

// Appends instructions to a body. An instruction that is already there is not added again; constants are
// folded by frontend and passes, not here.
class BodyBuilder {
 public:
  explicit BodyBuilder(ExprPool& pool, LoopBody body = {}) : pool_(&pool), body_(std::move(body)) {}

  ValueId load(BufferId buffer, DType dtype, Expr index, std::optional<ValueId> mask = std::nullopt);
  ValueId constant(DType dtype, Literal literal);
  ValueId constant_of(DType dtype, double value);  // rounded to the type
  ValueId index(Expr e, DType dtype = DType::i64);
  ValueId acc(DType dtype);
  ValueId check_index(ValueId v, Expr size);
  ValueId cast(ValueId v, DType dtype);     // adds nothing if the value has that type
  ValueId bitcast(ValueId v, DType dtype);  // to a type of the same size
  ValueId unary(OpCode code, ValueId a);
  ValueId binary(OpCode code, ValueId a, ValueId b);
  ValueId where(ValueId condition, ValueId a, ValueId b);
  ValueId add(Instr instr);

  // A value as an index expression: symbol %k.
  Expr as_index(ValueId v);
  // Appends `other` with its indices replaced by `indices` and, if given, its acc by `acc`. Returns its
  // result.
  ValueId inline_body(const LoopBody& other, std::span<const Expr> indices,
                      std::optional<ValueId> acc = std::nullopt);

  DType dtype(ValueId v) const { return body_[v].dtype; }
  const Instr& instr(ValueId v) const { return body_[v]; }
  ExprPool& pool() { return *pool_; }
  LoopBody finish(ValueId result);  // removes instructions that the result does not need

 private:
  ExprPool* pool_;
  LoopBody body_;
};

// Replaces symbols in every index expression; values keep their numbers.
LoopBody substitute(const LoopBody& body, const std::function<std::optional<Expr>(Expr symbol)>& replace);
// Drops instructions that the result does not depend on and renumbers the rest in order.
LoopBody without_dead_code(const LoopBody& body, ExprPool& pool);

}  // namespace braid::ir
