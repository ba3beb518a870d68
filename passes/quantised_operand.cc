#include "passes/quantised_operand.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/element.h"

namespace braid::passes {

using namespace ir;

namespace {

// Through conversions between integers that lose nothing, and to f32, which holds all numbers of 16 bits.
ValueId widened_from(const LoopBody& body, ValueId v) {
  if (body[v].code != OpCode::cast) return v;
  const ValueId from = body[v].operands[0], source = widened_from(body, from);
  const DType to = body[v].dtype, of = body[from].dtype;
  if (!is_integer(of)) return v;
  if (is_integer(to)) {
    const bool wider = size_of(to) > size_of(of) && (is_signed_integer(to) || !is_signed_integer(of));
    return wider ? source : v;
  }
  return to == DType::f32 && size_of(body[source].dtype) <= 2 ? source : v;
}

// A zero point in the type of the difference, as an integer.
std::optional<ValueId> integer_of(const LoopBody& body, ValueId v) {
  const Instr& instr = body[v];
  if (is_integer(instr.dtype)) return size_of(instr.dtype) <= 4 ? std::optional(v) : std::nullopt;
  const ValueId from = widened_from(body, v);
  if (is_integer(body[from].dtype)) return from;
  return std::nullopt;
}

// Whether its difference to 8 bits is one that f32 holds.
bool is_small(const LoopBody& body, ValueId zero) {
  const Instr& instr = body[widened_from(body, zero)];
  if (instr.code == OpCode::constant && std::holds_alternative<std::int64_t>(instr.literal))
    return std::abs(std::get<std::int64_t>(instr.literal)) < 65536;
  return is_integer(instr.dtype) && size_of(instr.dtype) <= 2;
}

// x - zero, with x of 8 bits, without its scale.
std::optional<QuantisedBody> difference(const LoopBody& body, ValueId v) {
  // An f32 conversion of an exact difference of integers.
  if (body[v].code == OpCode::cast && body[v].dtype == DType::f32 &&
      body[body[v].operands[0]].code == OpCode::sub) {
    const auto inner = difference(body, body[v].operands[0]);
    if (!inner || !inner->zero || !is_small(body, *inner->zero)) return std::nullopt;
    return inner;
  }
  if (body[v].dtype != DType::f32 && body[v].dtype != DType::i32) return std::nullopt;
  if (body[v].code == OpCode::sub) {
    const ValueId x = widened_from(body, body[v].operands[0]);
    const auto zero = integer_of(body, body[v].operands[1]);
    if (!is_byte(body[x].dtype) || !zero) return std::nullopt;
    // f32: the difference of two numbers of 16 bits is exact.
    return QuantisedBody{x, zero, std::nullopt};
  }
  const ValueId x = widened_from(body, v);
  if (x == v || !is_byte(body[x].dtype)) return std::nullopt;
  return QuantisedBody{x, std::nullopt, std::nullopt};
}

}  // namespace

std::optional<QuantisedBody> find_quantised(const LoopBody& body) {
  const Instr& last = body[body.result];
  if (last.code == OpCode::mul && last.dtype == DType::f32) {
    for (int k = 0; k < 2; ++k) {
      std::optional<QuantisedBody> found = difference(body, last.operands[static_cast<std::size_t>(k)]);
      if (!found) continue;
      found->scale = last.operands[static_cast<std::size_t>(1 - k)];
      return found;
    }
    return std::nullopt;
  }
  return difference(body, body.result);
}

std::optional<std::int64_t> largest_difference(const LoopBody& body, const QuantisedBody& parts) {
  const bool is_signed = body[parts.bytes].dtype == DType::i8;
  const std::int64_t low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  if (!parts.zero) return std::max(-low, high);
  const Instr& zero = body[widened_from(body, *parts.zero)];
  if (zero.code == OpCode::constant && std::holds_alternative<std::int64_t>(zero.literal)) {
    const std::int64_t z = std::get<std::int64_t>(zero.literal);
    if (std::abs(z) > 255) return std::nullopt;
    return std::max(std::abs(low - z), std::abs(high - z));
  }
  if (!is_byte(zero.dtype)) return std::nullopt;
  return is_signed == (zero.dtype == DType::i8) ? 255 : 383;
}

namespace {

// The first of the loop's dimensions up to `last` that dimension d of the view runs through together; `last`
// if it need not run through others.
std::optional<std::size_t> first_of_run(const Loops& loops, const TensorRef& view, std::size_t d,
                                        std::size_t last) {
  Expr size = 1;
  for (std::size_t e = last + 1; e-- > 0;) {
    size = size * loops.sizes[e];
    if (provably_equal(size, view.sizes[d])) return e;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Expr>> loop_indices(const Graph& graph, const Loops& loops, const TensorRef& view) {
  if (!view.offset.is_constant(0)) return std::nullopt;
  const std::vector<Expr> strides = contiguous_strides(loops.sizes);
  std::vector<Expr> at(loops.sizes.size(), 0);
  std::vector<char> whole(at.size());  // coordinates of a run of dimensions, which are within the sizes
  // Each stride belongs to the outermost dimension whose stride divides it. Coordinates within the sizes are
  // unique, so these are right no matter how they were found.
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d].is_constant(1) || view.strides[d].is_constant(0)) continue;
    bool found = false;
    for (std::size_t e = 0; e < strides.size() && !found; ++e) {
      if (loops.sizes[e].is_constant(1)) continue;
      const std::optional<Expr> steps = divide_exactly(view.strides[d], strides[e]);
      found = steps.has_value();
      if (!found) continue;
      const std::optional<std::size_t> first =
          steps->is_constant(1) ? first_of_run(loops, view, d, e) : std::nullopt;
      Expr rest = graph.pool->index(d);
      for (std::size_t k = e; first && k > *first; --k) {
        if (!at[k].is_constant(0) || !at[*first].is_constant(0)) return std::nullopt;
        at[k] = mod(rest, loops.sizes[k]);
        rest = floor_div(rest, loops.sizes[k]);
        whole[k] = whole[*first] = 1;
      }
      const std::size_t own = first.value_or(e);
      if (whole[own] != 0 && !(first && at[own].is_constant(0))) return std::nullopt;
      at[own] = at[own] + rest * *steps;
    }
    if (!found) return std::nullopt;
  }
  for (std::size_t e = 0; e < at.size(); ++e) {
    if (whole[e] != 0) continue;
    if (!provably_non_negative(at[e], view.sizes) || !provably_less(at[e], loops.sizes[e], view.sizes))
      return std::nullopt;
  }
  return at;
}

LoopBody slice_of(const LoopBody& body, ValueId value, ExprPool& pool) {
  LoopBody slice = body;
  slice.result = value;
  return without_dead_code(slice, pool);
}

bool is_always(const Graph& graph, const LoopBody& body, ValueId value, std::int64_t number) {
  const Instr& instr = body[widened_from(body, value)];
  if (instr.code == OpCode::constant)
    return std::holds_alternative<std::int64_t>(instr.literal) &&
           std::get<std::int64_t>(instr.literal) == number;
  if (instr.code != OpCode::load || !instr.operands.empty() || !is_integer(instr.dtype)) return false;
  const MemoryRegion where = region(graph, instr.buffer);
  if (!where.storage.valid() || graph[where.storage].kind != StorageKind::constant) return false;
  const ConstantData& data = graph[where.storage].data;
  const Expr count = numel(graph[instr.buffer].sizes);
  if (data.per_rank.empty() || !where.offset.is_constant() || !count.is_constant() ||
      !is_contiguous(graph[instr.buffer].sizes, strides_of(graph, instr.buffer)))
    return false;
  const std::int64_t item = size_of(instr.dtype), from = where.offset.constant();
  return std::all_of(data.per_rank.begin(), data.per_rank.end(), [&](std::span<const std::byte> bytes) {
    for (std::int64_t k = 0; k < count.constant(); ++k) {
      if (from + (k + 1) * item > std::ssize(bytes)) return false;
      const Literal element = read_element(instr.dtype, bytes.data() + from + k * item);
      if (std::get<std::int64_t>(element) != number) return false;
    }
    return true;
  });
}

}  // namespace braid::passes
