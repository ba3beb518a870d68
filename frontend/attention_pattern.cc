#include "frontend/attention_pattern.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/ops/attention.h"
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// Sizes that a product or a sum would require to be equal, with a guard where only a run can tell.
bool may_be_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  const ir::Bounds difference = ir::bounds(a - b);
  return difference.min <= 0 && difference.max >= 0;
}

bool is(const onnx::NodeProto& node, const char* type) {
  return node.op_type() == type && (node.domain().empty() || node.domain() == "ai.onnx");
}

class Recogniser {
 public:
  Recogniser(const PatternGraph& graph, const AttentionPattern& pattern) : g_(graph), p_(pattern) {}

  std::optional<TensorBox> run() {
    const onnx::NodeProto &first = node(p_.product), &last = node(p_.result);
    if (!type_of(last.input(1), type_)) return std::nullopt;
    rank_ = g_.value(last.input(1))->sizes.size();
    if (rank_ != 3 && rank_ != 4) return std::nullopt;
    if (p_.axis != -1 && p_.axis + 1 != static_cast<std::int64_t>(rank_)) return std::nullopt;
    if (!read_scores() || !read_weights()) return std::nullopt;
    OpContext c = g_.context(last);
    AttentionOperands a;
    // A softmax and a product give NaN for rows that have no softmax; a guard replaces these NaN by 0.
    a.undefined = p_.guards.empty() ? ir::UndefinedRows::nan : ir::UndefinedRows::zero;
    std::optional<Operand> query = operand(c, first.input(0), {0, 1, 2, 3}, true),
                           key = operand(c, first.input(1), {0, 1, 3, 2}, true),
                           value = operand(c, last.input(1), {0, 1, 2, 3}, false);
    if (!query || !key || !value) return std::nullopt;
    a.scale = scale_ * query->factor * key->factor;
    a.softcap = softcap_;
    a.query = query->box;
    // Heads that repeat are read once if both have them.
    const bool shared = key->distinct.valid() && value->distinct.valid() &&
                        key->distinct.sizes()[1] == value->distinct.sizes()[1];
    a.key = shared ? key->distinct : key->box;
    a.value = shared ? value->distinct : value->box;
    if (!std::isfinite(a.scale) || !sizes_fit(a)) return std::nullopt;
    if (!masks_.empty() && !combine_masks(c, a)) return std::nullopt;
    if (guard_) {
      const std::vector<Expr>& rows = guard_->sizes();
      if (rows.empty() || !rows.back().is_constant(1) || rows.size() > rank_) return std::nullopt;
      for (std::size_t d = 0; d + 1 < rows.size(); ++d) {
        const std::size_t at =
            rank_ - rows.size() + d;  // of [batch, heads, queries, keys], without heads in rank 3
        const Expr size = a.query.sizes()[rank_ == 4 || at == 0 ? at : at + 1];
        if (!rows[d].is_constant(1) && !may_be_equal(rows[d], size)) return std::nullopt;
      }
    }
    TensorBox y = attend(c, std::move(a));
    if (rank_ == 3) y = c.lowering().squeeze(y, 1);
    if (guard_) y = guarded(c.lowering(), y);
    return y;
  }

 private:
  struct Operand {
    TensorBox box;       // of rank 4
    TensorBox distinct;  // without the copies of heads, if there are any
    double factor = 1;
  };
  struct Mask {
    TensorBox box;
    double fill = kNone;
    bool inverted = false;   // of bool: attended where it is false
    bool adds_fill = false;  // of bool: to the score, which it would replace
  };

  const onnx::NodeProto& node(int k) const { return g_.graph.node(k); }

  bool type_of(const std::string& name, DType& type) const {
    const Value* value = g_.value(name);
    if (value == nullptr || value->sequence || value->empty_optional) return false;
    type = value->dtype;
    return is_float(type);
  }
  TensorBox box(OpContext& c, const std::string& name) const { return box_of(*g_.value(name), c.lowering()); }
  std::optional<double> scalar(const onnx::NodeProto& of, int input) const {
    const Value* const value = g_.value(of.input(input));
    if (value == nullptr || value->sizes.size() > rank_) return std::nullopt;
    return g_.context(of).constant_scalar(input);
  }
  // Whether a Cast is to a float type.
  bool to_float_type(const onnx::NodeProto& cast) const {
    OpContext c = g_.context(cast);
    return is_float(c.dtype_of(c.int_attribute("to")));
  }

  // Scale, softcap and masks, in the order in which attention has them.
  bool read_scores() {
    std::optional<double> divisor;  // of a tanh that needs its factor
    double inside = 1;
    bool in_tanh = false, capped = false;
    for (const PatternStep& step : p_.scores) {
      const onnx::NodeProto& n = node(step.node);
      if (is(n, "Identity")) continue;
      if (is(n, "Cast")) {
        if (!to_float_type(n)) return false;
        continue;
      }
      if (is(n, "Tanh")) {
        if (capped || in_tanh || !masks_.empty()) return false;
        in_tanh = true;
        inside = scale_;
        continue;
      }
      if (is(n, "Mul") || is(n, "Div")) {
        const std::optional<double> factor = scalar(n, 1 - step.input);
        if (!factor || !masks_.empty() || !std::isfinite(*factor) || *factor == 0) return false;
        const double by = is(n, "Mul") ? *factor : 1 / *factor;
        if (in_tanh) {
          // cap * tanh(inside * x) is a softcap of (cap * inside) * x.
          if (by <= 0) return false;
          softcap_ = by;
          scale_ = inside * by;
          in_tanh = false;
          capped = true;
        } else if (capped) {
          return false;
        } else {
          scale_ *= by;
        }
        continue;
      }
      if (in_tanh) return false;
      if (is(n, "Add")) {
        DType type;
        const std::string& name = n.input(1 - step.input);
        if (!type_of(name, type)) return false;
        if (std::optional<Mask> choice = mask_of_choices(name))
          masks_.push_back(std::move(*choice));
        else
          masks_.push_back({box_of(*g_.value(name), g_.context(n).lowering()), kNone, false});
      } else if (is(n, "Where")) {
        const std::optional<double> fill = scalar(n, 3 - step.input);
        Value* const condition = g_.value(n.input(0));
        if (!fill || condition == nullptr || std::isnan(*fill)) return false;
        masks_.push_back({box_of(*condition, g_.context(n).lowering()), *fill, step.input == 2});
      } else {
        return false;
      }
    }
    return !in_tanh;
  }

  // A Where(c, 0, x) or Where(c, x, 0) that is added counts as c that adds x. Layers often have such a tensor
  // each and share c, which has a quarter of its bytes.
  std::optional<Mask> mask_of_choices(const std::string& name) const {
    const onnx::NodeProto* const where = g_.producer(name);
    if (where == nullptr || !is(*where, "Where")) return std::nullopt;
    Value* const condition = g_.value(where->input(0));
    const std::optional<double> x = scalar(*where, 1), y = scalar(*where, 2);
    if (condition == nullptr || !x || !y || (*x != 0) == (*y != 0)) return std::nullopt;
    const double fill = *x != 0 ? *x : *y;
    if (std::isnan(fill)) return std::nullopt;
    return Mask{box_of(*condition, g_.context(*where).lowering()), fill, *x != 0, true};
  }

  bool read_weights() {
    for (const PatternStep& step : p_.weights) {
      const onnx::NodeProto& n = node(step.node);
      if (is(n, "Cast") && !to_float_type(n)) return false;
      if (!is(n, "Where")) continue;
      const std::optional<double> zero = scalar(n, 3 - step.input);
      if (!zero || *zero != 0) return false;
      if (!p_.guards.empty()) continue;
      Value* const condition = g_.value(n.input(0));
      if (condition == nullptr || guard_) return false;
      guard_ = box_of(*condition, g_.context(n).lowering());
      guard_keeps_ = step.input == 1;
    }
    return true;
  }

  // Returns the operand with dimensions in this order and the type of the result, as far up the graph as
  // possible.
  std::optional<Operand> operand(OpContext& c, std::string name, std::vector<int> order, bool scaled) const {
    const Value* const given = g_.value(name);
    if (given == nullptr || given->sizes.size() != rank_) return std::nullopt;
    if (rank_ == 3) {  // the second dimension is added below
      std::erase(order, 1);
      for (int& d : order) d -= d > 1;
    }
    std::optional<Operand> best;
    double factor = 1;
    for (int steps = 0; steps < 16; ++steps) {
      DType type;
      if (!type_of(name, type)) break;
      if (type == type_) {
        best = Operand{c.lowering().permute(box(c, name), order), {}, factor};
        if (rank_ == 3) best->box = c.lowering().unsqueeze(best->box, 1);
        best->distinct = distinct_heads(c, name, order);
      }
      const onnx::NodeProto* const n = g_.producer(name);
      if (n == nullptr || n->input_size() == 0) break;
      if (is(*n, "Identity")) {
        name = n->input(0);
      } else if (is(*n, "Cast")) {
        // Only a cast from a narrower type: the other way, the cast decides the precision of the computation.
        DType from;
        if (!type_of(n->input(0), from) || size_of(from) >= size_of(type)) break;
        name = n->input(0);
      } else if (is(*n, "Transpose")) {
        OpContext transpose = g_.context(*n);
        std::vector<std::int64_t> perm(rank_);
        std::iota(perm.rbegin(), perm.rend(), 0);
        if (const auto attribute = transpose.ints_attribute("perm")) perm = *attribute;
        if (perm.size() != rank_) break;
        for (int& d : order) d = static_cast<int>(perm[static_cast<std::size_t>(d)]);
        name = n->input(0);
      } else if (const std::string* from = transposed_by_reshapes(*n)) {
        for (int& d : order) d = d == 2 ? 3 : d == 3 ? 2 : d;
        name = *from;
      } else if (scaled && (is(*n, "Mul") || is(*n, "Div"))) {
        int from = 0;
        std::optional<double> by = scalar(*n, 1);
        if (!by && is(*n, "Mul")) from = 1, by = scalar(*n, 0);
        const Value* const value = g_.value(n->input(from));
        if (!by || *by == 0 || !std::isfinite(*by) || value == nullptr || value->sizes.size() != rank_) break;
        factor *= is(*n, "Mul") ? *by : 1 / *by;
        name = n->input(from);
      } else {
        break;
      }
    }
    return best;
  }

  // [a, b, c, d] -> [a * b, c, d] -> [a * b, d, c] -> [a, b, d, c]: returns the first of these values, given
  // the last node.
  const std::string* transposed_by_reshapes(const onnx::NodeProto& last) const {
    if (rank_ != 4 || !is(last, "Reshape")) return nullptr;
    const onnx::NodeProto* const transpose = g_.producer(last.input(0));
    if (transpose == nullptr || !is(*transpose, "Transpose")) return nullptr;
    const onnx::NodeProto* const first = g_.producer(transpose->input(0));
    if (first == nullptr || !is(*first, "Reshape")) return nullptr;
    const Value *const from = g_.value(first->input(0)), *const joined = g_.value(first->output(0)),
                       *const to = g_.value(last.output(0));
    if (from == nullptr || joined == nullptr || to == nullptr) return nullptr;
    if (from->sizes.size() != 4 || joined->sizes.size() != 3 || to->sizes.size() != 4) return nullptr;
    OpContext c = g_.context(*transpose);
    if (c.ints_attribute("perm") != std::vector<std::int64_t>{0, 2, 1}) return nullptr;
    const std::vector<Expr>&x = from->sizes, &y = to->sizes;
    const bool same = joined->sizes[1] == x[2] && joined->sizes[2] == x[3] && y[0] == x[0] && y[1] == x[1] &&
                      y[2] == x[3] && y[3] == x[2];
    return same ? &first->input(0) : nullptr;
  }

  // Returns the heads before Expand or Tile repeated them: [b, heads, 1, n, d] -> [b, heads, copies, n, d] ->
  // [b, heads * copies, n, d].
  TensorBox distinct_heads(OpContext& c, const std::string& name, const std::vector<int>& order) const {
    const onnx::NodeProto* const reshape = g_.producer(name);
    if (rank_ != 4 || order[1] != 1 || reshape == nullptr || !is(*reshape, "Reshape")) return {};
    const onnx::NodeProto* const copies = g_.producer(reshape->input(0));
    if (copies == nullptr || !(is(*copies, "Expand") || is(*copies, "Tile"))) return {};
    const Value *const from = g_.value(copies->input(0)), *const to = g_.value(copies->output(0)),
                       *const joined = g_.value(name);
    if (from == nullptr || to == nullptr || from->sizes.size() != 5 || to->sizes.size() != 5) return {};
    for (std::size_t d = 0; d < 5; ++d) {
      if (d == 2 ? !from->sizes[d].is_constant(1) : !(from->sizes[d] == to->sizes[d])) return {};
    }
    const std::vector<Expr> heads = {to->sizes[0], to->sizes[1] * to->sizes[2], to->sizes[3], to->sizes[4]};
    if (!(joined->sizes == heads)) return {};
    return c.lowering().permute(c.lowering().squeeze(box(c, copies->input(0)), 2), order);
  }

  static bool sizes_fit(const AttentionOperands& a) {
    const std::vector<Expr>&q = a.query.sizes(), &k = a.key.sizes(), &v = a.value.sizes();
    // A batch of 1 would be repeated.
    for (const Expr& batch : {k[0], v[0]}) {
      if (!(q[0] == batch) && (q[0].is_constant(1) || batch.is_constant(1) || !may_be_equal(q[0], batch)))
        return false;
    }
    if (!(k[1] == v[1]) || !may_be_equal(q[3], k[3]) || !may_be_equal(k[2], v[2])) return false;
    if (q[1] == k[1]) return true;
    return q[1].is_constant() && k[1].is_constant() && k[1].constant() > 0 &&
           q[1].constant() % k[1].constant() == 0;
  }

  // All masks as one of rank 4, whose sizes are those of the scores or 1.
  bool combine_masks(OpContext& c, AttentionOperands& a) {
    ir::Lowering& l = c.lowering();
    const Expr wanted[] = {a.query.sizes()[0], a.query.sizes()[1], a.query.sizes()[2], a.key.sizes()[2]};
    for (Mask& mask : masks_) {
      if (mask.box.rank() > rank_) return false;
      while (mask.box.rank() < rank_) mask.box = l.unsqueeze(mask.box, 0);
      if (rank_ == 3) mask.box = l.unsqueeze(mask.box, 1);
      for (std::size_t d = 0; d < 4; ++d) {
        const Expr size = mask.box.sizes()[d];
        // One element per key or query where there is one key or query in scores would repeat these.
        if (!size.is_constant(1) &&
            (!may_be_equal(size, wanted[d]) || (wanted[d].is_constant(1) && !(size == wanted[d]))))
          return false;
      }
      if (mask.inverted) {
        mask.box = unary(l, OpCode::logical_not, mask.box);
        mask.inverted = false;
      }
    }
    const auto replaces = [&](const Mask& mask) {
      return mask.box.dtype() == DType::boolean && !mask.adds_fill && mask.fill == masks_[0].fill;
    };
    if (masks_.size() == 1 || std::all_of(masks_.begin(), masks_.end(), replaces)) {
      a.mask = masks_[0].box;
      for (std::size_t k = 1; k < masks_.size(); ++k)
        a.mask = binary(l, OpCode::logical_and, *a.mask, masks_[k].box);
      a.fill = masks_[0].fill;
      a.adds_fill = masks_[0].adds_fill;
      return true;
    }
    // Several masks are added up. A mask that replaces a score hides only the masks that are added before it.
    std::optional<TensorBox> sum;
    const DType type = compute_type(type_);
    for (const Mask& mask : masks_) {
      TensorBox added = mask.box;
      if (added.dtype() == DType::boolean) {
        if (!mask.adds_fill) return false;
        added = l.pointwise({added}, [&](BodyBuilder& b, std::span<const ValueId> v) {
          return b.where(v[0], b.constant_of(type, 0), b.constant_of(type, mask.fill));
        });
      }
      added = l.cast(added, type);
      sum = sum ? binary(l, OpCode::add, *sum, added) : added;
    }
    a.mask = *sum;
    return true;
  }

  TensorBox guarded(ir::Lowering& l, const TensorBox& y) const {
    return l.pointwise({*guard_, y}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId zero = b.constant_of(b.dtype(v[1]), 0);
      return guard_keeps_ ? b.where(v[0], v[1], zero) : b.where(v[0], zero, v[1]);
    });
  }

  const PatternGraph& g_;
  const AttentionPattern& p_;
  std::size_t rank_ = 0;
  DType type_ = DType::f32;
  double scale_ = 1, softcap_ = 0;
  std::vector<Mask> masks_;
  std::optional<TensorBox> guard_;  // rows that are 0 where it is true, or false if guard_keeps_
  bool guard_keeps_ = false;
};

}  // namespace

std::optional<ir::TensorBox> lower_pattern(const PatternGraph& graph, const AttentionPattern& pattern) {
  return Recogniser(graph, pattern).run();
}

}  // namespace braid::frontend
