#include "ir/post_ops.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "ir/activation.h"
#include "ir/element.h"
#include "ir/error.h"

namespace braid::ir {

namespace {

// Instructions that an activation may have; exported GELUs have up to 20, with a conversion at each.
constexpr std::size_t kLongest = 64;

std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }

// Values through which everything from acc to the result passes, in order, both ends included.
std::vector<std::size_t> cut_points(const LoopBody& body, std::size_t acc) {
  const std::size_t result = at(body.result);
  if (acc > result) return {};  // the result does not depend on it
  std::vector<bool> depends(result + 1, false);
  std::vector<std::size_t> last_use(result + 1, 0);
  depends[acc] = true;
  for (std::size_t k = acc + 1; k <= result; ++k) {
    const auto uses = [&](std::size_t value) {
      if (!depends[value]) return;
      depends[k] = true;
      last_use[value] = k;
    };
    for (ValueId o : body.instrs[k].operands) uses(at(o));
    for_each_symbol(body.instrs[k].index, [&](Expr s) {
      if (s.is_symbol(SymbolKind::value)) uses(static_cast<std::size_t>(s.symbol_number()));
    });
  }
  std::vector<std::size_t> cuts;
  if (!depends[result]) return cuts;
  std::size_t reach = acc;  // the furthest use of a value seen so far
  for (std::size_t k = acc; k <= result; ++k) {
    if (!depends[k]) continue;
    if (reach <= k) cuts.push_back(k);
    reach = std::max(reach, last_use[k]);
  }
  return cuts;
}

// The index with 0 for the indices of extents of 1.
Expr without_unit_extents(Expr index, const TensorRef& out, ExprPool& pool) {
  for (std::size_t d = 0; d < out.sizes.size(); ++d) {
    if (!out.sizes[d].is_constant(1)) continue;
    index =
        substitute(index, [&](Expr s) { return s == pool.index(d) ? std::optional<Expr>(0) : std::nullopt; });
  }
  return index;
}

bool depends_on_dimensions_only(Expr e) {
  bool only = true;
  for_each_symbol(e, [&](Expr s) { only = only && s.is_symbol(SymbolKind::dim); });
  return only;
}

// The element of the result at the product's indices, counted from the result's first.
Expr in_result(const Graph& graph, const TensorRef& out) {
  Expr index = 0;
  for (std::size_t d = 0; d < out.sizes.size(); ++d) index = index + graph.pool->index(d) * out.strides[d];
  return index;
}

// Returns the offset of an operand if the load is the same in every row (vectors) or has the layout of the
// result (add_matrix).
std::optional<Expr> offset_of(const Instr& load, PostOp::Kind kind, const Graph& graph,
                              const TensorRef& out) {
  ExprPool& pool = *graph.pool;
  const Expr column = pool.index(static_cast<int>(out.sizes.size()) - 1);
  const Expr own = kind == PostOp::Kind::add_matrix ? in_result(graph, out) : column;
  const Expr offset = without_unit_extents(load.index, out, pool) - without_unit_extents(own, out, pool);
  return depends_on_dimensions_only(offset) ? std::optional(offset) : std::nullopt;
}

// The first of the kinds that the load suits.
std::optional<PostOp> with_operand(std::initializer_list<PostOp::Kind> kinds, ValueId operand,
                                   const LoopBody& body, const Graph& graph, const TensorRef& out) {
  const Instr& load = body[operand];
  if (load.code != OpCode::load || !load.operands.empty()) return std::nullopt;
  for (PostOp::Kind kind : kinds) {
    if (offset_of(load, kind, graph, out)) return PostOp{.kind = kind, .operand = operand};
  }
  return std::nullopt;
}

std::optional<PostOp> scaling_by(const Instr& constant, bool divides) {
  if (constant.code != OpCode::constant) return std::nullopt;
  const double literal = std::holds_alternative<double>(constant.literal)
                             ? std::get<double>(constant.literal)
                             : static_cast<double>(std::get<std::int64_t>(constant.literal));
  const double value = is_float(constant.dtype) ? round_to(constant.dtype, literal) : literal;
  const double factor = divides ? 1 / value : value;
  // Libraries store it as a float32.
  using Limits = std::numeric_limits<float>;
  if (!(std::fabs(factor) >= double{Limits::min()} && std::fabs(factor) <= double{Limits::max()}))
    return std::nullopt;
  return PostOp{.kind = PostOp::Kind::scale, .factor = factor};
}

// One instruction with two operands: value `from`, and one that does not depend on it.
std::optional<PostOp> binary_post_op(const LoopBody& body, std::size_t from, std::size_t to,
                                     const Graph& graph, const TensorRef& out) {
  const Instr& instr = body.instrs[to];
  if (instr.operands.size() != 2 || !holds(instr.dtype, graph[out.buffer].dtype)) return std::nullopt;
  const bool first = at(instr.operands[0]) == from;
  ValueId other = instr.operands[first ? 1 : 0];
  if (at(other) == from) return std::nullopt;
  // Widening changes nothing; narrowing is refused here as everywhere.
  while (body[other].code == OpCode::cast && holds(body[other].dtype, body[body[other].operands[0]].dtype))
    other = body[other].operands[0];
  using Kind = PostOp::Kind;
  if (instr.code == OpCode::add)
    return with_operand({Kind::add_vector, Kind::add_matrix}, other, body, graph, out);
  if (instr.code == OpCode::mul && body[other].code == OpCode::load)
    return with_operand({Kind::mul_vector}, other, body, graph, out);
  if (instr.code == OpCode::mul) return scaling_by(body[other], false);
  if (instr.code == OpCode::div && first) return scaling_by(body[other], true);
  return std::nullopt;
}

}  // namespace

std::vector<PostOp> find_post_ops(const Graph& graph, const Product& product) {
  if (!product.epilogue) return {};
  const LoopBody& body = *product.epilogue;
  const auto is_acc = [](const Instr& instr) { return instr.code == OpCode::acc; };
  if (std::count_if(body.instrs.begin(), body.instrs.end(), is_acc) != 1) return {};
  const auto acc = static_cast<std::size_t>(std::find_if(body.instrs.begin(), body.instrs.end(), is_acc) -
                                            body.instrs.begin());
  const DType result = graph[product.out.buffer].dtype;
  if (!holds(body.instrs[acc].dtype, result)) return {};
  const std::vector<std::size_t> cuts = cut_points(body, acc);
  if (cuts.empty()) return {};
  std::vector<PostOp> ops;
  std::size_t c = 0;
  while (c + 1 < cuts.size()) {
    // The longest stretch that is an activation.
    std::size_t next = cuts.size() - 1;
    std::optional<PostOp::Kind> activation;
    while (cuts[next] - cuts[c] > kLongest) --next;
    while (next > c && !(activation = activation_between(body, cuts[c], cuts[next], result))) --next;
    const ValueId rounded{static_cast<std::int32_t>(cuts[next])};
    if (activation == PostOp::Kind::identity) {
      if (!ops.empty()) ops.back().result = rounded;
    } else if (activation) {
      ops.push_back({.kind = *activation, .result = rounded});
    } else {
      next = c + 1;
      std::optional<PostOp> op = binary_post_op(body, cuts[c], cuts[next], graph, product.out);
      if (!op) break;
      op->result = ValueId{static_cast<std::int32_t>(cuts[next])};
      ops.push_back(*op);
    }
    c = next;
  }
  if (ops.empty() && c + 1 == cuts.size())
    ops.push_back({.kind = PostOp::Kind::identity, .result = body.result});
  return ops;
}

bool begins_with(const Graph& graph, const Product& product, std::span<const PostOp> steps) {
  if (steps.empty()) return true;
  const std::vector<PostOp> found = find_post_ops(graph, product);
  const auto holds = [&](PostOp found, const PostOp& stated) {
    if (stated.kind == PostOp::Kind::add_matrix && found.kind == PostOp::Kind::add_vector &&
        offset_of((*product.epilogue)[found.operand], stated.kind, graph, product.out))
      found.kind = stated.kind;
    return found == stated;
  };
  return steps.size() <= found.size() &&
         std::equal(steps.begin(), steps.end(), found.begin(),
                    found.begin() + static_cast<std::ptrdiff_t>(steps.size()),
                    [&](const PostOp& s, const PostOp& f) { return holds(f, s); });
}

bool named_to_the_end(const Product& product) {
  return !product.post_ops.empty() && product.post_ops.back().result == product.epilogue->result;
}

BufferId operand_buffer(const Product& product, const PostOp& op) {
  return (*product.epilogue)[op.operand].buffer;
}

Expr operand_offset(const Graph& graph, const Product& product, const PostOp& op) {
  const std::optional<Expr> offset = offset_of((*product.epilogue)[op.operand], op.kind, graph, product.out);
  internal_check(offset.has_value(), "post-op '{}' adds what is neither a row nor a matrix",
                 to_string(op.kind));
  return *offset;
}

}  // namespace braid::ir
