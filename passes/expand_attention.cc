#include "passes/expand_attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ir/typing.h"
#include "passes/equal_parts.h"
#include "passes/replace_operations.h"

namespace braid::passes {
namespace {

using namespace ir;

// Returns the padded length of a row of scores and of weights, so that both begin at multiples of kRowUnit
// bytes.
Expr padded_keys(const Graph& graph, const Attention& k) {
  const std::int64_t unit = kRowUnit / size_of(graph[k.value.buffer].dtype);
  return ceil_div(k.key.sizes[2], unit) * unit;
}

// Returns the number of query heads that share a key head.
std::int64_t sharing(const Attention& k) {
  return k.query.sizes[1] == k.key.sizes[1] ? 1 : k.query.sizes[1].constant() / k.key.sizes[1].constant();
}

// Dimensions of everything in between: batch, key head, head of the query that shares it, query, key.
class AttentionExpansion {
 public:
  // Expands attention `k`, which is operation `id` or a part of it. No scores of a part have more than `most`
  // elements.
  AttentionExpansion(Graph& graph, OpId id, Attention k, std::int64_t shared, std::optional<Expr> most)
      : graph_(graph),
        id_(id),
        k_(std::move(k)),
        most_(most),
        score_(accumulator_of(graph[k_.query.buffer].dtype)),
        heads_(k_.key.sizes[1]),
        shared_(shared) {
    rows_ = {k_.query.sizes[0], heads_, shared_, k_.query.sizes[2]};
    pairs_ = rows_;
    pairs_.push_back(k_.key.sizes[2]);
  }

  // Replaces the operation, or stands before it as a part of it.
  std::vector<OpId> run(bool replaces) {
    const TensorRef scores = of_pairs(".scores", score_), masked = of_pairs(".masked", score_),
                    most = of_rows(".most"), raised = of_pairs(".raised", score_), total = of_rows(".total"),
                    weights = of_pairs(".weights", graph_[k_.value.buffer].dtype);
    std::vector<OpId> ops;
    const auto add = [&](const char* suffix, Kernel kernel, BufferId output) {
      ops.push_back(graph_.add_op(
          {graph_[id_].name + suffix, std::move(kernel), {output}, graph_[id_].origins, std::nullopt}));
    };
    Gemm product;
    product.tf32 = k_.tf32;
    product.a = by_key_head(k_.query);
    product.b = shared_by_heads(k_.key);
    std::swap(product.b.sizes[3], product.b.sizes[4]);
    std::swap(product.b.strides[3], product.b.strides[4]);
    product.out = scores;
    add(".scores", std::move(product), scores.buffer);
    add(".masked", masked_scores(scores, masked), masked.buffer);
    add(".most", reduction(ReduceKind::max, masked, most), most.buffer);
    add(".raised", exponentials(masked, most, raised), raised.buffer);
    add(".total", reduction(ReduceKind::sum, raised, total), total.buffer);
    add(".weights", quotients(raised, total, weights), weights.buffer);

    Gemm sums;
    sums.tf32 = k_.tf32;
    sums.a = weights;
    sums.b = shared_by_heads(k_.value);
    sums.out = by_key_head(k_.out);
    if (!replaces) {
      const BufferId out = sums.out.buffer;
      add(".part", std::move(sums), out);
      return ops;
    }
    Operation& op = graph_[id_];
    op.kernel = std::move(sums);
    op.cost.reset();
    ops.push_back(id_);
    return ops;
  }

 private:
  TensorRef of_rows(const char* suffix) {
    return whole(graph_, graph_.add_owned(graph_[id_].name + suffix, score_, rows_));
  }
  TensorRef of_pairs(const char* suffix, DType type) {
    const std::string name = graph_[id_].name + suffix;
    if (!most_) return whole(graph_, graph_.add_padded(name, type, pairs_));
    std::vector<Expr> padded = pairs_;
    padded.back() = padded_keys(graph_, k_);
    const Expr bytes = min(numel(padded), *most_) * size_of(type);
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = type;
    buffer.sizes = pairs_;
    buffer.layout = FixedLayout{contiguous_strides(padded)};
    buffer.storage = graph_.add_storage({.name = name, .bytes = bytes});
    return whole(graph_, graph_.add_buffer(std::move(buffer)));
  }
  // [batch, heads, ...] as [batch, key heads, heads of each, ...].
  TensorRef by_key_head(TensorRef ref) const {
    ref.sizes[1] = heads_;
    ref.sizes.insert(ref.sizes.begin() + 2, Expr(shared_));
    ref.strides.insert(ref.strides.begin() + 2, ref.strides[1]);
    ref.strides[1] = ref.strides[1] * shared_;
    return ref;
  }
  TensorRef shared_by_heads(TensorRef ref) const {
    ref.sizes.insert(ref.sizes.begin() + 2, Expr(shared_));
    ref.strides.insert(ref.strides.begin() + 2, Expr(0));
    return ref;
  }

  Expr index(std::size_t d) const { return pairs_[d].is_constant(1) ? Expr(0) : graph_.pool->index(d); }
  Expr offset(const TensorRef& ref, std::span<const Expr> at) const {
    Expr e = ref.offset;
    for (std::size_t d = 0; d < ref.sizes.size(); ++d) e = e + at[d] * ref.strides[d];
    return e;
  }
  std::vector<Expr> indices() const { return {index(0), index(1), index(2), index(3), index(4)}; }
  ValueId load(BodyBuilder& b, const TensorRef& ref, std::span<const Expr> at) const {
    return b.load(ref.buffer, graph_[ref.buffer].dtype, simplify(offset(ref, at), pairs_));
  }
  // Loads an element of one of the tensors above; tensors over rows ignore the key index.
  ValueId load(BodyBuilder& b, const TensorRef& ref) const { return load(b, ref, indices()); }

  Loops loops(BodyBuilder& b, ValueId value, const TensorRef& to, std::optional<ReduceKind> kind = {}) const {
    Loops out;
    out.sizes = pairs_;
    out.reduced = kind ? 1 : 0;
    out.reduce = kind.value_or(ReduceKind::sum);
    out.body = b.finish(value);
    out.store_index = simplify(offset(to, indices()), pairs_);
    return out;
  }

  // Whether the key may be attended to as far as positions tell.
  std::optional<ValueId> attended(BodyBuilder& b) const {
    std::optional<ValueId> all;
    const auto require = [&](ValueId v) { all = all ? b.binary(OpCode::logical_and, *all, v) : v; };
    const std::vector<Expr> at = indices();
    const auto of_row = [&](const TensorRef& ref) {
      return b.cast(load(b, ref, std::span(at).first(1)), DType::i64);
    };
    const ValueId key = b.index(at[4]);
    if (k_.valid_keys) require(b.binary(OpCode::lt, key, of_row(*k_.valid_keys)));
    if (!k_.before && !k_.after) return all;
    const ValueId position = k_.positions ? b.binary(OpCode::add, of_row(*k_.positions), b.index(at[3]))
                                          : b.index(k_.first_position + at[3]);
    if (k_.after) require(b.binary(OpCode::le, key, b.binary(OpCode::add, position, b.index(*k_.after))));
    if (k_.before) require(b.binary(OpCode::ge, key, b.binary(OpCode::sub, position, b.index(*k_.before))));
    return all;
  }

  Loops masked_scores(const TensorRef& scores, const TensorRef& to) const {
    BodyBuilder b(*graph_.pool);
    const ValueId none = b.constant_of(score_, -std::numeric_limits<double>::infinity());
    ValueId s = load(b, scores);
    if (k_.scale != 1) s = b.binary(OpCode::mul, s, b.constant_of(score_, k_.scale));
    if (k_.softcap != 0) {
      const ValueId cap = b.constant_of(score_, k_.softcap);
      s = b.binary(OpCode::mul, b.unary(OpCode::tanh, b.binary(OpCode::div, s, cap)), cap);
    }
    if (k_.mask) {
      const ValueId mask = load(b, by_key_head(*k_.mask));
      if (b.dtype(mask) != DType::boolean) {
        s = b.binary(OpCode::add, s, b.cast(mask, score_));
      } else {
        const ValueId fill = b.constant_of(score_, k_.fill);
        s = b.where(mask, s, k_.adds_fill ? b.binary(OpCode::add, s, fill) : fill);
      }
    }
    if (const std::optional<ValueId> may = attended(b)) s = b.where(*may, s, none);
    return loops(b, s, to);
  }

  Loops reduction(ReduceKind kind, const TensorRef& of, const TensorRef& to) const {
    BodyBuilder b(*graph_.pool);
    return loops(b, load(b, of), to, kind);
  }

  Loops exponentials(const TensorRef& masked, const TensorRef& most, const TensorRef& to) const {
    BodyBuilder b(*graph_.pool);
    const ValueId s = load(b, masked), m = load(b, most);
    const ValueId none = b.constant_of(score_, -std::numeric_limits<double>::infinity());
    return loops(b,
                 b.where(b.binary(OpCode::eq, s, none), b.constant_of(score_, 0),
                         b.unary(OpCode::exp, b.binary(OpCode::sub, s, m))),
                 to);
  }

  // The sum of a row without a softmax is 0 or NaN.
  Loops quotients(const TensorRef& raised, const TensorRef& total, const TensorRef& to) const {
    BodyBuilder b(*graph_.pool);
    const ValueId x = load(b, raised), sum = load(b, total), zero = b.constant_of(score_, 0);
    const ValueId quotient = b.binary(OpCode::div, x, sum);
    const ValueId weight = k_.undefined == UndefinedRows::nan ? quotient
                           : k_.undefined == UndefinedRows::zero
                               ? b.where(b.binary(OpCode::gt, sum, zero), quotient, zero)
                               : b.where(b.binary(OpCode::eq, sum, zero), zero, quotient);
    return loops(b, b.cast(weight, graph_[to.buffer].dtype), to);
  }

  Graph& graph_;
  const OpId id_;
  const Attention k_;
  const std::optional<Expr> most_;
  const DType score_;
  const Expr heads_;
  const std::int64_t shared_;
  std::vector<Expr> rows_, pairs_;
};

// The parts of one attention.
class Division {
 public:
  Division(Graph& graph, OpId id, std::int64_t score_bytes, bool in_region)
      : graph_(graph), id_(id), k_(*graph[id].as<Attention>()), shared_(sharing(k_)) {
    const std::int64_t item = size_of(accumulator_of(graph[k_.query.buffer].dtype));
    const Expr batch = k_.query.sizes[0], heads = k_.key.sizes[1];
    batches_.all = batch;
    groups_.all = heads;
    const Expr of_head = max(Expr(shared_) * k_.query.sizes[2] * padded_keys(graph, k_), 1);
    const Expr of_element = max(heads, 1) * of_head;
    if (in_region || !has_own_memory() || bounds(batch * of_element).max >= kUnbounded) return;
    std::int64_t most = std::max<std::int64_t>(score_bytes / item, 1);
    while (count_of_parts(batch, of_element, most) * count_of_parts(heads, of_head, most) > kMostParts)
      most *= 2;
    batches_ = equal_parts(batch, of_element, most, kMostParts);
    groups_ = equal_parts(heads, of_head, most, kMostParts);
    if (batches_.count * groups_.count > 1) most_ = max(most, groups_.count > 1 ? of_head : of_element);
  }

  std::vector<OpId> run() {
    if (!most_) return AttentionExpansion(graph_, id_, k_, shared_, std::nullopt).run(true);
    graph_[k_.out.buffer].producer = {};
    std::vector<OpId> ops;
    for (std::int64_t b = 0; b < batches_.count; ++b) {
      for (std::int64_t h = 0; h < groups_.count; ++h) {
        const bool last = b + 1 == batches_.count && h + 1 == groups_.count;
        const Attention piece = part(batches_.range(b), groups_.range(h));
        for (OpId op : AttentionExpansion(graph_, id_, piece, shared_, most_).run(last)) ops.push_back(op);
        if (!last) continue;
        graph_[id_].outputs = {piece.out.buffer};
        graph_[piece.out.buffer].producer = id_;
      }
    }
    return ops;
  }

 private:
  static constexpr std::int64_t kMostParts = 64;
  // Whether views may fill the result: its memory is its own, and only this program writes it.
  bool has_own_memory() const {
    const Buffer& out = graph_[k_.out.buffer];
    return out.storage.valid() && graph_[out.storage].kind != StorageKind::input &&
           !graph_[out.storage].alias_of.valid();
  }

  // Returns `narrowed`; if it begins elsewhere than `given`, as a buffer of its own, so that all parts have
  // one index and one kernel.
  TensorRef view(const char* suffix, const TensorRef& given, const TensorRef& narrowed) {
    if (narrowed.offset == given.offset) return narrowed;
    Buffer buffer;
    buffer.name = graph_[given.buffer].name + suffix;
    buffer.dtype = graph_[given.buffer].dtype;
    buffer.sizes = narrowed.sizes;
    buffer.layout = NonOwningLayout{given.buffer, narrowed.offset, given.strides};
    return whole(graph_, graph_.add_buffer(std::move(buffer)));
  }

  // `heads`: of the tensor, for each key head.
  static TensorRef narrow(TensorRef ref, const Range& batch, const Range& groups, Expr heads) {
    ref.offset = ref.offset + batch.start * ref.strides[0];
    ref.sizes[0] = batch.size;
    if (ref.sizes.size() == 1) return ref;
    ref.offset = ref.offset + groups.start * heads * ref.strides[1];
    ref.sizes[1] = groups.size * heads;
    return ref;
  }

  Attention part(const Range& batch, const Range& groups) {
    Attention piece = k_;
    piece.query = narrow(k_.query, batch, groups, shared_);
    piece.key = narrow(k_.key, batch, groups, 1);
    piece.value = narrow(k_.value, batch, groups, 1);
    for (std::optional<TensorRef> Attention::*member :
         {&Attention::mask, &Attention::valid_keys, &Attention::positions}) {
      if (k_.*member)
        piece.*member = view(".part", *(k_.*member), narrow(*(k_.*member), batch, groups, shared_));
    }
    Buffer out;
    const TensorRef narrowed = narrow(k_.out, batch, groups, shared_);
    out.name = graph_[k_.out.buffer].name + ".part";
    out.dtype = graph_[k_.out.buffer].dtype;
    out.sizes = narrowed.sizes;
    out.layout = NonOwningLayout{k_.out.buffer, narrowed.offset, narrowed.strides};
    piece.out = whole(graph_, graph_.add_buffer(std::move(out)));
    return piece;
  }

  Graph& graph_;
  const OpId id_;
  const Attention k_;
  const std::int64_t shared_;
  EqualParts batches_, groups_;  // groups of key heads
  std::optional<Expr> most_;     // elements of scores; absent: one part
};

}  // namespace

bool ExpandAttention::run(Schedule& schedule) const {
  Graph& graph = schedule.graph;
  const IdVector<OpId, bool> in_region = in_regions(graph);
  return replace_operations(schedule, [&](OpId id) -> std::optional<std::vector<OpId>> {
    if (graph[id].as<Attention>() == nullptr) return std::nullopt;
    return Division(graph, id, score_bytes, in_region[id]).run();
  });
}

}  // namespace braid::passes
