#include "ir/loop_body.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/error.h"

namespace braid::ir {
namespace {

struct Row {
  OpCode code;
  std::string_view name;
  int operands;
};

constexpr std::array<Row, kOpCodeCount> kRows = {{
    {OpCode::load, "load", 0},
    {OpCode::constant, "constant", 0},
    {OpCode::index, "index", 0},
    {OpCode::acc, "acc", 0},
    {OpCode::check_index, "check_index", 1},
    {OpCode::cast, "cast", 1},
    {OpCode::neg, "neg", 1},
    {OpCode::abs, "abs", 1},
    {OpCode::sign, "sign", 1},
    {OpCode::exp, "exp", 1},
    {OpCode::log, "log", 1},
    {OpCode::sqrt, "sqrt", 1},
    {OpCode::rsqrt, "rsqrt", 1},
    {OpCode::reciprocal, "reciprocal", 1},
    {OpCode::erf, "erf", 1},
    {OpCode::tanh, "tanh", 1},
    {OpCode::sigmoid, "sigmoid", 1},
    {OpCode::sin, "sin", 1},
    {OpCode::cos, "cos", 1},
    {OpCode::floor, "floor", 1},
    {OpCode::ceil, "ceil", 1},
    {OpCode::round, "round", 1},
    {OpCode::is_nan, "is_nan", 1},
    {OpCode::is_inf, "is_inf", 1},
    {OpCode::logical_not, "not", 1},
    {OpCode::add, "add", 2},
    {OpCode::sub, "sub", 2},
    {OpCode::mul, "mul", 2},
    {OpCode::div, "div", 2},
    {OpCode::mod, "mod", 2},
    {OpCode::fmod, "fmod", 2},
    {OpCode::pow, "pow", 2},
    {OpCode::min, "min", 2},
    {OpCode::max, "max", 2},
    {OpCode::logical_and, "and", 2},
    {OpCode::logical_or, "or", 2},
    {OpCode::logical_xor, "xor", 2},
    {OpCode::eq, "eq", 2},
    {OpCode::ne, "ne", 2},
    {OpCode::lt, "lt", 2},
    {OpCode::le, "le", 2},
    {OpCode::gt, "gt", 2},
    {OpCode::ge, "ge", 2},
    {OpCode::where, "where", 3},
}};

constexpr bool rows_in_order() {
  for (int i = 0; i < kOpCodeCount; ++i) {
    if (static_cast<int>(kRows[static_cast<std::size_t>(i)].code) != i) return false;
  }
  return true;
}
static_assert(rows_in_order());

bool is_predicate(OpCode code) {
  return (code >= OpCode::eq && code <= OpCode::ge) || code == OpCode::is_nan || code == OpCode::is_inf;
}

// Index expressions name values by symbol %k: renumber them with the operands.
Expr renumber(Expr e, std::span<const ValueId> map, ExprPool& pool) {
  return substitute(e, [&](Expr s) -> std::optional<Expr> {
    if (!s.is_symbol(SymbolKind::value)) return std::nullopt;
    return pool.value(map[static_cast<std::size_t>(s.symbol_number())].index);
  });
}

}  // namespace

std::string_view to_string(OpCode code) { return kRows[static_cast<std::size_t>(code)].name; }

std::optional<OpCode> opcode_from_string(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.code;
  }
  return std::nullopt;
}

int operand_count(OpCode code) { return kRows[static_cast<std::size_t>(code)].operands; }

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

ValueId BodyBuilder::unary(OpCode code, ValueId a) {
  return add({code, is_predicate(code) ? DType::boolean : dtype(a), {a}});
}

ValueId BodyBuilder::binary(OpCode code, ValueId a, ValueId b) {
  internal_check(dtype(a) == dtype(b), "{} of {} and {}", to_string(code), to_string(dtype(a)),
                 to_string(dtype(b)));
  return add({code, is_predicate(code) ? DType::boolean : dtype(a), {a, b}});
}

ValueId BodyBuilder::where(ValueId condition, ValueId a, ValueId b) {
  internal_check(dtype(a) == dtype(b) && dtype(condition) == DType::boolean, "where with mismatched types");
  return add({OpCode::where, dtype(a), {condition, a, b}});
}

Expr BodyBuilder::as_index(ValueId v) { return pool_->value(v.index); }

ValueId BodyBuilder::inline_body(const LoopBody& other, std::span<const Expr> indices,
                                 std::optional<ValueId> acc) {
  std::vector<ValueId> map(other.instrs.size());
  for (std::size_t i = 0; i < other.instrs.size(); ++i) {
    Instr instr = other.instrs[i];
    if (instr.code == OpCode::acc && acc) {
      map[i] = *acc;
      continue;
    }
    for (ValueId& v : instr.operands) v = map[static_cast<std::size_t>(v.index)];
    // Values and indices must be replaced together: an index may bring in values of this body.
    instr.index = substitute(instr.index, [&](Expr s) -> std::optional<Expr> {
      if (s.is_symbol(SymbolKind::value))
        return pool_->value(map[static_cast<std::size_t>(s.symbol_number())].index);
      if (s.is_symbol(SymbolKind::index) && static_cast<std::size_t>(s.symbol_number()) < indices.size()) {
        return indices[static_cast<std::size_t>(s.symbol_number())];
      }
      return std::nullopt;
    });
    map[i] = add(std::move(instr));
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
    Instr instr = body.instrs[i];
    for (ValueId& v : instr.operands) v = map[static_cast<std::size_t>(v.index)];
    instr.index = renumber(instr.index, map, pool);
    map[i] = ValueId{static_cast<std::int32_t>(out.instrs.size())};
    out.instrs.push_back(std::move(instr));
  }
  out.result = map[static_cast<std::size_t>(body.result.index)];
  return out;
}

}  // namespace braid::ir
