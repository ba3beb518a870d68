#include "ir/loop_body.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/id_vector.h"

namespace braid::ir {
namespace {

bool yields_bool(OpCode code) { return row_of(code).result_type == ResultType::boolean; }

}  // namespace

std::string_view to_string(OpCode code) { return row_of(code).name; }

std::optional<OpCode> opcode_from_string(std::string_view name) {
  for (const OpRow& row : kOps) {
    if (row.name == name) return row.code;
  }
  return std::nullopt;
}

ValueId BodyBuilder::add(Instr instr) {
  for (std::size_t i = 0; i < body_.instrs.size(); ++i) {
    const Instr& known = body_.instrs[i];
    // -0.0 == 0.0 as doubles, but they are different constants.
    const bool same_literal =
        known.literal.index() == instr.literal.index() &&
        (!std::holds_alternative<double>(instr.literal) ||
         std::signbit(std::get<double>(known.literal)) == std::signbit(std::get<double>(instr.literal)));
    if (known == instr && same_literal) return ValueId{static_cast<std::int32_t>(i)};
  }
  body_.instrs.push_back(std::move(instr));
  return ValueId{static_cast<std::int32_t>(body_.instrs.size() - 1)};
}

ValueId BodyBuilder::load(BufferId buffer, DType dtype, Expr index, std::optional<ValueId> mask) {
  Instr instr{OpCode::load, dtype};
  instr.buffer = buffer;
  instr.index = index;
  if (mask) instr.operands = {*mask};
  return add(std::move(instr));
}

ValueId BodyBuilder::constant(DType dtype, Literal literal) {
  internal_check(std::holds_alternative<double>(literal) == is_float(dtype),
                 "literal of the wrong kind for {}", to_string(dtype));
  Instr instr{OpCode::constant, dtype};
  instr.literal = literal;
  return add(std::move(instr));
}

ValueId BodyBuilder::constant_of(DType dtype, double value) {
  if (dtype == DType::f32) return constant(dtype, static_cast<double>(static_cast<float>(value)));
  if (is_float(dtype)) return constant(dtype, value);
  if (dtype == DType::boolean) return constant(dtype, std::int64_t{value != 0});
  return constant(dtype, static_cast<std::int64_t>(value));
}

ValueId BodyBuilder::index(Expr e, DType dtype) {
  Instr instr{OpCode::index, dtype};
  instr.index = e;
  return add(std::move(instr));
}

ValueId BodyBuilder::acc(DType dtype) { return add({OpCode::acc, dtype}); }

ValueId BodyBuilder::check_index(ValueId v, Expr size) {
  Instr instr{OpCode::check_index, dtype(v), {v}};
  instr.index = size;
  return add(std::move(instr));
}

ValueId BodyBuilder::cast(ValueId v, DType dtype) {
  if (this->dtype(v) == dtype) return v;
  return add({OpCode::cast, dtype, {v}});
}

ValueId BodyBuilder::bitcast(ValueId v, DType dtype) {
  internal_check(size_of(this->dtype(v)) == size_of(dtype), "bitcast from {} to {}",
                 to_string(this->dtype(v)), to_string(dtype));
  return this->dtype(v) == dtype ? v : add({OpCode::bitcast, dtype, {v}});
}

ValueId BodyBuilder::unary(OpCode code, ValueId a) {
  return add({code, yields_bool(code) ? DType::boolean : dtype(a), {a}});
}

ValueId BodyBuilder::binary(OpCode code, ValueId a, ValueId b) {
  internal_check(dtype(a) == dtype(b), "{} of {} and {}", to_string(code), to_string(dtype(a)),
                 to_string(dtype(b)));
  return add({code, yields_bool(code) ? DType::boolean : dtype(a), {a, b}});
}

ValueId BodyBuilder::where(ValueId condition, ValueId a, ValueId b) {
  internal_check(dtype(a) == dtype(b) && dtype(condition) == DType::boolean, "where with mismatched types");
  return add({OpCode::where, dtype(a), {condition, a, b}});
}

Expr BodyBuilder::as_index(ValueId v) { return pool_->value(v.index); }

Instr in_terms_of(Instr instr, ExprPool& pool, const std::function<ValueId(ValueId)>& value,
                  std::span<const Expr> indices) {
  for (ValueId& v : instr.operands) v = value(v);
  // Values and indices are replaced together: an index may bring in values of the other body.
  instr.index = substitute(instr.index, [&](Expr s) -> std::optional<Expr> {
    if (s.is_symbol(SymbolKind::value)) return pool.value(value({s.symbol_number()}).index);
    if (s.is_symbol(SymbolKind::index) && offset_of(s.symbol_number()) < indices.size())
      return indices[offset_of(s.symbol_number())];
    return std::nullopt;
  });
  return instr;
}

ValueId BodyBuilder::inline_body(const LoopBody& other, std::span<const Expr> indices,
                                 std::optional<ValueId> acc) {
  std::vector<ValueId> map(other.instrs.size());
  const auto value = [&](ValueId v) { return at(map, v); };
  for (std::size_t i = 0; i < other.instrs.size(); ++i) {
    const Instr& instr = other.instrs[i];
    map[i] = instr.code == OpCode::acc && acc ? *acc : add(in_terms_of(instr, *pool_, value, indices));
  }
  return map[static_cast<std::size_t>(other.result.index)];
}

LoopBody BodyBuilder::finish(ValueId result) {
  LoopBody body = body_;
  body.result = result;
  return without_dead_code(body, *pool_);
}

LoopBody substitute(const LoopBody& body, const std::function<std::optional<Expr>(Expr)>& replace) {
  LoopBody out = body;
  for (Instr& instr : out.instrs) instr.index = substitute(instr.index, replace);
  return out;
}

LoopBody without_dead_code(const LoopBody& body, ExprPool& pool) {
  std::vector<bool> live(body.instrs.size(), false);
  live[static_cast<std::size_t>(body.result.index)] = true;
  for (std::size_t i = body.instrs.size(); i-- > 0;) {
    // A check is an effect of its own, but only where its value is used: an unused index cannot go wrong.
    if (!live[i]) continue;
    for (ValueId v : body.instrs[i].operands) live[static_cast<std::size_t>(v.index)] = true;
    for_each_symbol(body.instrs[i].index, [&](Expr s) {
      if (s.is_symbol(SymbolKind::value)) live[static_cast<std::size_t>(s.symbol_number())] = true;
    });
  }
  LoopBody out;
  std::vector<ValueId> map(body.instrs.size());
  for (std::size_t i = 0; i < body.instrs.size(); ++i) {
    if (!live[i]) continue;
    map[i] = ValueId{static_cast<std::int32_t>(out.instrs.size())};
    out.instrs.push_back(in_terms_of(body.instrs[i], pool, [&](ValueId v) { return at(map, v); }));
  }
  out.result = map[static_cast<std::size_t>(body.result.index)];
  return out;
}

}  // namespace braid::ir
