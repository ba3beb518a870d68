#include "ir/typing.h"

namespace braid::ir {
namespace {

using Kind = TypeError::Kind;
using Result = std::optional<TypeError>;

std::string_view describe(OperandTypes wanted) {
  constexpr std::string_view names[] = {"any", "a numeric", "a floating-point", "an integer", "the bool"};
  return names[static_cast<std::size_t>(wanted)];
}

bool literal_fits(DType dtype, const Literal& literal) {
  if (std::holds_alternative<double>(literal)) return is_float(dtype);
  if (is_float(dtype)) return false;
  dtype = byte_type(dtype);
  const std::int64_t v = std::get<std::int64_t>(literal);
  const std::int64_t bits = size_of(dtype) * 8;
  if (dtype == DType::boolean) return v == 0 || v == 1;
  if (bits == 64) return true;
  if (is_signed_integer(dtype))
    return v >= -(std::int64_t{1} << (bits - 1)) && v < (std::int64_t{1} << (bits - 1));
  return v >= 0 && v < (std::int64_t{1} << bits);
}

}  // namespace

std::optional<TypeError> no_arithmetic(std::string_view what, DType dtype) {
  return wrong(Kind::type, "{} of {}: elements of this type are only moved and reinterpreted", what,
               to_string(dtype));
}

bool is_buffer(const Graph& graph, BufferId buffer) {
  return buffer.valid() && static_cast<std::size_t>(buffer.index) < graph.buffers.size();
}

bool has_memory(const Graph& graph, BufferId buffer) {
  const Layout& layout = graph[unmutated(graph, buffer)].layout;
  return !std::holds_alternative<NoneLayout>(layout) && !std::holds_alternative<MultiOutputLayout>(layout);
}

bool accepts(OperandTypes types, DType dtype) {
  switch (types) {
    case OperandTypes::any:
      return true;
    case OperandTypes::numeric:
      return dtype != DType::boolean && !is_storage(dtype);
    case OperandTypes::floating:
      return is_float(dtype);
    case OperandTypes::integer:
      return is_integer(dtype);
    case OperandTypes::boolean:
      return dtype == DType::boolean;
  }
  return false;
}

DType accumulator_of(DType operand) {
  if (operand == DType::f64 || operand == DType::i64 || operand == DType::u64) return operand;
  return is_float(operand) ? DType::f32 : DType::i32;
}

std::optional<DType> result_type(const LoopBody& body, const Instr& instr) {
  switch (row_of(instr.code).result_type) {
    case ResultType::given:
      return std::nullopt;
    case ResultType::same:
      return body.operand_dtype(instr);
    case ResultType::boolean:
      return DType::boolean;
  }
  return std::nullopt;
}

std::optional<TypeError> check_index_expr(const LoopBody& body, Expr e, std::size_t k,
                                          const BodyContext& context) {
  Result found;
  for_each_symbol(e, [&](Expr s) {
    if (found) return;
    if (s.is_symbol(SymbolKind::index)) {
      if (s.symbol_number() < 0 || static_cast<std::size_t>(s.symbol_number()) >= context.indices) {
        found = wrong(Kind::index, "index i{} is out of range in a loop with {} indices", s.symbol_number(),
                      context.indices);
      }
    } else if (s.is_symbol(SymbolKind::value)) {
      const int n = s.symbol_number();
      if (n < 0 || static_cast<std::size_t>(n) >= k) {
        found = wrong(Kind::index, "value %{} is not defined before it is used as an index", n);
      } else if (!is_integer(body.instrs[static_cast<std::size_t>(n)].dtype)) {
        found = wrong(Kind::index, "value %{} of type {} cannot be an index: it must be an integer", n,
                      to_string(body.instrs[static_cast<std::size_t>(n)].dtype));
      }
    }
  });
  return found;
}

namespace {

// Checks an instruction that gives its own type.
Result check_typed(const Graph& graph, const LoopBody& body, const Instr& i, const BodyContext& context) {
  const auto type_of = [&](std::size_t n) { return body[i.operands[n]].dtype; };
  switch (i.code) {
    case OpCode::load:
      if (!is_buffer(graph, i.buffer)) return wrong(Kind::structure, "load without a buffer");
      if (!has_memory(graph, i.buffer))
        return wrong(Kind::type, "load from '{}', which has no memory", graph[i.buffer].name);
      if (i.dtype != graph[i.buffer].dtype) {
        return wrong(Kind::type, "load of {} from '{}' of {}", to_string(i.dtype), graph[i.buffer].name,
                     to_string(graph[i.buffer].dtype));
      }
      if (i.operands.size() == 1 && type_of(0) != DType::boolean)
        return wrong(Kind::type, "the mask of a load must be bool");
      return std::nullopt;
    case OpCode::constant:
      if (!literal_fits(i.dtype, i.literal))
        return wrong(Kind::type, "the constant does not fit {}", to_string(i.dtype));
      return std::nullopt;
    case OpCode::index:
      if (!is_integer(i.dtype))
        return wrong(Kind::type, "index requires an integer type, got {}", to_string(i.dtype));
      return std::nullopt;
    case OpCode::acc:
      if (!context.acc) return wrong(Kind::structure, "acc is used outside an epilogue");
      if (i.dtype != *context.acc) {
        return wrong(Kind::type, "the accumulator is {}, not {}", to_string(*context.acc),
                     to_string(i.dtype));
      }
      return std::nullopt;
    case OpCode::cast:
      if (is_storage(i.dtype)) return no_arithmetic(row_of(i.code).name, i.dtype);
      return std::nullopt;
    case OpCode::bitcast:
      if (size_of(type_of(0)) != size_of(i.dtype)) {
        return wrong(Kind::type, "bitcast from {} to {}, which has another size", to_string(type_of(0)),
                     to_string(i.dtype));
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<TypeError> check_instr(const Graph& graph, const LoopBody& body, std::size_t k,
                                     const BodyContext& context) {
  const Instr& i = body.instrs[k];
  const OpRow& row = row_of(i.code);
  const std::string_view name = row.name;
  const auto count = static_cast<int>(i.operands.size());
  const bool mask_allowed = i.code == OpCode::load && count == 1;
  if (count != row.operands && !mask_allowed) {
    return wrong(Kind::operands, "{} takes {} operands, got {}", name, row.operands, count);
  }
  for (ValueId v : i.operands) {
    if (!v.valid() || static_cast<std::size_t>(v.index) >= k) {
      return wrong(Kind::index, "value %{} is not defined before {} uses it", v.index, name);
    }
  }
  if (Result r = check_index_expr(body, i.index, k, context)) return r;
  for (std::size_t n = 0; n < i.operands.size(); ++n) {
    const DType t = body[i.operands[n]].dtype;
    if (!accepts(row.operand_types, t))
      return wrong(Kind::type, "{} requires {} type, got {}", name, describe(row.operand_types),
                   to_string(t));
    if (is_storage(t) && i.code != OpCode::bitcast && i.code != OpCode::where) return no_arithmetic(name, t);
  }
  if (row.result_type == ResultType::given) return check_typed(graph, body, i, context);
  const auto type_of = [&](std::size_t n) { return body[i.operands[n]].dtype; };
  if (i.code == OpCode::where) {
    if (type_of(0) != DType::boolean) return wrong(Kind::type, "the condition of where must be bool");
    if (type_of(1) != type_of(2)) {
      return wrong(Kind::type, "the alternatives of where have types {} and {}", to_string(type_of(1)),
                   to_string(type_of(2)));
    }
  } else if (count == 2 && type_of(0) != type_of(1)) {
    return wrong(Kind::type, "{} of {} and {}", name, to_string(type_of(0)), to_string(type_of(1)));
  }
  if (i.dtype != *result_type(body, i)) {
    return wrong(Kind::type, "{} yields {}, not {}", name, to_string(*result_type(body, i)),
                 to_string(i.dtype));
  }
  return std::nullopt;
}

}  // namespace braid::ir
