#include "codegen/epilogue.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace braid::codegen {

using namespace ir;

namespace {

// Instructions that an activation may have; exported GELUs have up to 20, with a conversion at each.
constexpr std::size_t kLongest = 64;

std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }

// Values through which everything from acc to the result passes, in order; both ends included.
std::vector<std::size_t> cut_points(const LoopBody& body, std::size_t acc) {
  const std::size_t result = at(body.result);
  std::vector<bool> depends(result + 1, false);
  std::vector<std::size_t> last_use(result + 1, 0);
  depends[acc] = true;
  for (std::size_t k = acc + 1; k <= result; ++k) {
    for (ValueId o : body.instrs[k].operands) {
      if (!depends[at(o)]) continue;
      depends[k] = true;
      last_use[at(o)] = k;
    }
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
    index = substitute(index, [&](Expr s) {
      return s == pool.index(static_cast<int>(d)) ? std::optional<Expr>(0) : std::nullopt;
    });
  }
  return index;
}

bool depends_on_dimensions_only(Expr e) {
  bool only = true;
  for_each_symbol(e, [&](Expr s) { only = only && s.is_symbol(SymbolKind::dim); });
  return only;
}

// A load that is the same in every row, or that lies like the output.
std::optional<PostOp> addition_of(const Instr& load, const Graph& graph, const TensorRef& out) {
  if (load.code != OpCode::load || !load.operands.empty()) return std::nullopt;
  ExprPool& pool = *graph.pool;
  const std::size_t rank = out.sizes.size();
  Expr like_out = 0;
  for (std::size_t d = 0; d < rank; ++d)
    like_out = like_out + pool.index(static_cast<int>(d)) * out.strides[d];
  const Expr index = without_unit_extents(load.index, out, pool);
  const Expr column = without_unit_extents(pool.index(static_cast<int>(rank) - 1), out, pool);
  const Expr in_row = index - column, in_matrix = index - without_unit_extents(like_out, out, pool);
  if (depends_on_dimensions_only(in_row)) return PostOp{PostOp::Kind::add_vector, 1, load.buffer, in_row};
  if (depends_on_dimensions_only(in_matrix))
    return PostOp{PostOp::Kind::add_matrix, 1, load.buffer, in_matrix};
  return std::nullopt;
}

std::optional<PostOp> scaling_by(const Instr& constant, bool divides) {
  if (constant.code != OpCode::constant) return std::nullopt;
  const double value = std::holds_alternative<double>(constant.literal)
                           ? std::get<double>(constant.literal)
                           : static_cast<double>(std::get<std::int64_t>(constant.literal));
  const double factor = divides ? 1 / value : value;
  // Libraries hold it as a float32.
  using Limits = std::numeric_limits<float>;
  if (!(std::fabs(factor) >= double{Limits::min()} && std::fabs(factor) <= double{Limits::max()}))
    return std::nullopt;
  return PostOp{PostOp::Kind::scale, factor};
}

// One instruction of two operands, of which one is value `from` and the other does not depend on it.
std::optional<PostOp> binary_post_op(const LoopBody& body, std::size_t from, std::size_t to,
                                     const Graph& graph, const TensorRef& out) {
  const Instr& instr = body.instrs[to];
  if (instr.operands.size() != 2 || !holds(instr.dtype, graph[out.buffer].dtype)) return std::nullopt;
  const bool first = at(instr.operands[0]) == from;
  const Instr* other = &body[instr.operands[first ? 1 : 0]];
  if (other == &body.instrs[from]) return std::nullopt;
  // Widening changes nothing; what narrows is refused here as everywhere.
  while (other->code == OpCode::cast && holds(other->dtype, body[other->operands[0]].dtype))
    other = &body[other->operands[0]];
  if (instr.code == OpCode::add) return addition_of(*other, graph, out);
  if (instr.code == OpCode::mul) return scaling_by(*other, false);
  if (instr.code == OpCode::div && first) return scaling_by(*other, true);
  return std::nullopt;
}

}  // namespace

std::string_view to_string(const PostOp& op) {
  switch (op.kind) {
    case PostOp::Kind::scale:
      return "scale";
    case PostOp::Kind::add_vector:
      return "add_vector";
    case PostOp::Kind::add_matrix:
      return "add_matrix";
    case PostOp::Kind::activation:
      return to_string(op.activation);
  }
  return "";
}

std::optional<std::vector<PostOp>> post_ops(const Graph& graph, const Gemm& gemm) {
  const LoopBody& body = *gemm.epilogue;
  const auto is_acc = [](const Instr& instr) { return instr.code == OpCode::acc; };
  if (std::count_if(body.instrs.begin(), body.instrs.end(), is_acc) != 1) return std::nullopt;
  const auto acc = static_cast<std::size_t>(std::find_if(body.instrs.begin(), body.instrs.end(), is_acc) -
                                            body.instrs.begin());
  const DType result = graph[gemm.out.buffer].dtype;
  if (!holds(body.instrs[acc].dtype, result)) return std::nullopt;
  const std::vector<std::size_t> cuts = cut_points(body, acc);
  if (cuts.empty()) return std::nullopt;
  std::vector<PostOp> ops;
  for (std::size_t c = 0; c + 1 < cuts.size();) {
    // The longest stretch that is an activation.
    std::size_t next = cuts.size() - 1;
    std::optional<Activation> activation;
    while (cuts[next] - cuts[c] > kLongest) --next;
    while (next > c && !(activation = activation_between(body, cuts[c], cuts[next], result))) --next;
    if (activation) {
      if (*activation != Activation::identity)
        ops.push_back({.kind = PostOp::Kind::activation, .activation = *activation});
    } else {
      next = c + 1;
      const std::optional<PostOp> op = binary_post_op(body, cuts[c], cuts[next], graph, gemm.out);
      if (!op) return std::nullopt;
      ops.push_back(*op);
    }
    c = next;
  }
  return ops;
}

}  // namespace braid::codegen
