#include "passes/integer_products.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "passes/compact.h"
#include "passes/constant_sums.h"
#include "passes/convolution_sums.h"
#include "passes/new_operations.h"
#include "passes/pass_context.h"
#include "passes/quantised_operand.h"
#include "passes/storage_use.h"

namespace braid::passes {
namespace {

using namespace ir;

struct Operand {
  TensorRef bytes;
  std::optional<LoopBody> zero, scale;  // over the indices of the product's result
  std::optional<LoopBody> own_zero;     // the zero point over the operand's
  std::int64_t largest = 255;
  OpId producer;  // of what the product reads now; invalid if that is `bytes`
  std::optional<ValueId>
      stored;  // the value of the producer's body that becomes a tensor; absent if `bytes` exists
};

class Rewriter {
 public:
  Rewriter(Schedule& schedule, bool float_products)
      : schedule_(schedule), graph_(schedule.graph), float_products_(float_products), writers_(schedule) {}

  bool run() {
    index();
    for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) {
      const ScheduleNode& node = schedule_.nodes[n];
      if (node.kind != ScheduleNode::Kind::single) continue;
      if (as_product(graph_[node.op].kernel) != nullptr) narrow(node.op);
    }
    if (!changed_) return false;
    added_.place(schedule_);
    drop_unread(schedule_, narrowed_from_);
    schedule_.plan.reset();
    compact(schedule_);
    return true;
  }

 private:
  Schedule& schedule_;
  Graph& graph_;
  bool float_products_;
  bool changed_ = false;
  std::set<OpId> single_;  // nodes of their own
  StorageWriters writers_;
  NewOperations added_;
  std::set<OpId> narrowed_from_;  // producers that may be read no more
  std::vector<std::pair<TensorRef, BufferId>> row_sums_, column_sums_;
  std::vector<std::pair<TensorRef, TensorRef>> shrunk_;  // u8 weights, and what became of them

  void index() {
    for (const ScheduleNode& node : schedule_.nodes) {
      if (node.kind == ScheduleNode::Kind::single) single_.insert(node.op);
    }
  }

  // ---- recognition

  // The index of the product's result that each dimension of an operand is; none if the product sums over it.
  using Kept = std::vector<std::optional<Expr>>;

  std::optional<Operand> match(const TensorRef& ref, DType sums, const Kept& kept,
                               std::span<const Expr> sizes) {
    const Buffer& buffer = graph_[ref.buffer];
    if (is_byte(buffer.dtype))
      return sums == DType::i32 ? std::optional(Operand{ref, {}, {}, {}, 255, {}, {}}) : std::nullopt;
    if (buffer.dtype != sums) return std::nullopt;
    const OpId producer = buffer.producer;
    if (!producer.valid() || !single_.contains(producer) || !buffer.storage.valid()) return std::nullopt;
    const auto* loops = graph_[producer].as<Loops>();
    if (loops == nullptr || loops->is_reduction() || !writes_in_order(*loops, buffer) ||
        !writers_.never_changes(ref.buffer))
      return std::nullopt;
    const std::optional<QuantisedBody> parts = find_quantised(loops->body);
    const auto at = loop_indices(graph_, *loops, ref);
    if (!parts || !at) return std::nullopt;
    Operand operand;
    operand.producer = producer;
    const std::optional<std::int64_t> largest = largest_difference(loops->body, *parts);
    if (sums == DType::f32 && !largest) return std::nullopt;
    operand.largest = largest.value_or(0);
    const auto over_operand = [&](ValueId value) {
      return substitute(slice_of(loops->body, value, *graph_.pool), [&](Expr s) {
        return s.is_symbol(SymbolKind::index)
                   ? std::optional((*at)[static_cast<std::size_t>(s.symbol_number())])
                   : std::nullopt;
      });
    };
    const auto over_product = [&](ValueId value) -> std::optional<LoopBody> {
      LoopBody slice = over_operand(value);
      bool known = true;
      for (Instr& instr : slice.instrs) {
        if (instr.code == OpCode::check_index) return std::nullopt;
        if (instr.code == OpCode::load && !writers_.never_changes(instr.buffer)) return std::nullopt;
        instr.index = substitute(instr.index, [&](Expr s) -> std::optional<Expr> {
          if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
          const std::optional<Expr>& index = kept[static_cast<std::size_t>(s.symbol_number())];
          known = known && index;
          return index.value_or(0);
        });
        instr.index = simplify(instr.index, sizes);
      }
      return known ? std::optional(std::move(slice)) : std::nullopt;
    };
    if (parts->zero && !is_always(graph_, loops->body, *parts->zero, 0)) {
      operand.zero = over_product(*parts->zero);
      if (!operand.zero) return std::nullopt;
      operand.own_zero = over_operand(*parts->zero);
    }
    if (parts->scale) {
      operand.scale = over_product(*parts->scale);
      if (!operand.scale) return std::nullopt;
    }
    if (const auto view = existing(*loops, parts->bytes, ref, *at)) {
      operand.bytes = *view;
    } else {
      operand.bytes = ref;
      operand.stored = parts->bytes;
    }
    return operand;
  }

  bool writes_in_order(const Loops& loops, const Buffer& buffer) const {
    const auto* fixed = std::get_if<FixedLayout>(&buffer.layout);
    if (fixed == nullptr || !(fixed->strides == contiguous_strides(buffer.sizes)) ||
        buffer.sizes != loops.sizes)
      return false;
    const Expr own = strided_index(*graph_.pool, loops.sizes, fixed->strides);
    return simplify(loops.store_index, loops.sizes) == simplify(own, loops.sizes);
  }

  // The bytes that the loop only loads, as a view like `ref`.
  std::optional<TensorRef> existing(const Loops& loops, ValueId bytes, const TensorRef& ref,
                                    const std::vector<Expr>& at) {
    const Instr& load = loops.body[bytes];
    if (load.code != OpCode::load || !load.operands.empty() || !writers_.never_changes(load.buffer))
      return std::nullopt;
    std::optional<TensorRef> view =
        strided_view(graph_, load.buffer, simplify(substitute_indices(load.index, at), ref.sizes), ref.sizes);
    for (std::size_t d = 0; view && d < ref.sizes.size(); ++d) {
      if (!provably_non_negative(view->strides[d])) return std::nullopt;
      if (ref.sizes[d].is_constant(1)) view->strides[d] = 0;
    }
    return view;
  }

  // ---- new operations

  // Makes the producer store the bytes, from which it now computes its result.
  void store_bytes(Operand& operand) {
    if (!operand.stored) return;
    Operation& op = graph_[operand.producer];
    const Loops before = *op.as<Loops>();
    const DType type = before.body[*operand.stored].dtype;
    const BufferId wide = operand.bytes.buffer;
    const BufferId bytes = graph_.add_owned(graph_[wide].name + ".bytes", type, graph_[wide].sizes);
    Loops first = before;
    first.body = slice_of(before.body, *operand.stored, *graph_.pool);
    Loops& rest = *op.as<Loops>();
    rest.body.instrs[static_cast<std::size_t>(operand.stored->index)] = {
        .code = OpCode::load, .dtype = type, .operands = {}, .buffer = bytes, .index = before.store_index};
    rest.body = without_dead_code(rest.body, *graph_.pool);
    const std::vector<std::string> origins = op.origins;
    op.cost.reset();
    add_before(operand.producer, {graph_[bytes].name, std::move(first), {bytes}, origins, std::nullopt});
    operand.bytes.buffer = bytes;
    operand.stored.reset();
  }

  OpId add_before(OpId reader, Operation op) {
    const OpId added = graph_.add_op(std::move(op));
    added_.add_before(reader, added);
    for (BufferId b : graph_[added].outputs) writers_.add(b);
    return added;
  }

  // Returns the i32 sums of the bytes over dimension `along`, and the index of the sum that belongs to the
  // product's indices.
  Sums sums_of(const TensorRef& bytes, std::size_t along, OpId product,
               std::vector<std::pair<TensorRef, BufferId>>& known) {
    std::vector<std::size_t> kept;
    for (std::size_t d = 0; d < bytes.sizes.size(); ++d) {
      if (d != along && !bytes.sizes[d].is_constant(1) && !bytes.strides[d].is_constant(0)) kept.push_back(d);
    }
    std::vector<Expr> sizes, at;
    Expr element = bytes.offset;
    for (std::size_t d : kept) {
      element = element + graph_.pool->index(sizes.size()) * bytes.strides[d];
      at.push_back(graph_.pool->index(d));
      sizes.push_back(bytes.sizes[d]);
    }
    const std::vector<Expr> strides = contiguous_strides(sizes);
    Sums sums;
    for (std::size_t k = 0; k < sizes.size(); ++k) sums.index = sums.index + at[k] * strides[k];
    for (const auto& [ref, buffer] : known) {
      if (ref == bytes) {
        sums.buffer = buffer;
        return sums;
      }
    }
    const std::string name = graph_[bytes.buffer].name + ".sums";
    if (const auto constant = constant_sums(graph_, bytes, along, kept)) {
      sums.buffer = graph_.add_owned(name, DType::i32, sizes, StorageKind::constant);
      graph_[graph_[sums.buffer].storage].data = *constant;
    } else {
      sums.buffer = graph_.add_owned(name, DType::i32, sizes);
      Loops loops;
      loops.sizes = sizes;
      loops.sizes.push_back(bytes.sizes[along]);
      loops.reduced = 1;
      for (std::size_t k = 0; k < sizes.size(); ++k)
        loops.store_index = loops.store_index + graph_.pool->index(k) * strides[k];
      element = element + graph_.pool->index(sizes.size()) * bytes.strides[along];
      BodyBuilder body(*graph_.pool);
      loops.body = body.finish(body.cast(
          body.load(bytes.buffer, graph_[bytes.buffer].dtype, simplify(element, loops.sizes)), DType::i32));
      add_before(product, {name, std::move(loops), {sums.buffer}, graph_[product].origins, std::nullopt});
    }
    known.emplace_back(bytes, sums.buffer);
    return sums;
  }

  Sums sums_of_windows(OpId id, const TensorRef& bytes) {
    WindowSums made = window_sums(graph_, *graph_[id].as<Convolution>(), bytes);
    add_before(id, {graph_[made.sums.buffer].name,
                    std::move(made.kernel),
                    {made.sums.buffer},
                    graph_[id].origins,
                    std::nullopt});
    return made.sums;
  }

  // ---- the product

  // Returns, for each dimension of both operands, its index in the result.
  std::pair<Kept, Kept> kept_dimensions(OpId id) {
    const Product& product = *as_product(graph_[id].kernel);
    Kept a(product.a.sizes.size()), b(product.b.sizes.size());
    const std::size_t last = product.out.sizes.size() - 1;
    if (graph_[id].as<Gemm>() != nullptr) {
      for (std::size_t d = 0; d < last; ++d) a[d] = graph_.pool->index(d);
      for (std::size_t d = 0; d + 1 < last; ++d) b[d] = graph_.pool->index(d);
      b[last] = graph_.pool->index(last);
    } else {
      const Expr filter = graph_.pool->index(last), filters = product.b.sizes.back();
      a[0] = graph_.pool->index(0);
      const bool one = product.b.sizes[0].is_constant(1);
      b.front() = one ? Expr(0) : floor_div(filter, filters);
      b.back() = one ? filter : mod(filter, filters);
    }
    return {a, b};
  }

  void narrow(OpId id) {
    const Product& given = *as_product(graph_[id].kernel);
    const DType type = graph_[given.a.buffer].dtype, b_type = graph_[given.b.buffer].dtype;
    if (is_byte(type) && is_byte(b_type)) return;
    const DType sums = is_byte(type) ? b_type : type;
    if (sums != DType::i32 && (sums != DType::f32 || !float_products_)) return;
    const auto* convolution = graph_[id].as<Convolution>();
    if (convolution != nullptr && convolution->transposed) return;
    const auto [kept_a, kept_b] = kept_dimensions(id);
    const std::vector<Expr> sizes = given.out.sizes;
    std::optional<Operand> b = match(given.b, sums, kept_b, sizes);
    if (!b) return;
    std::optional<Operand> a = match(given.a, sums, kept_a, sizes);
    if (!a) {
      if (sums == DType::f32 && convolution == nullptr) keep_weights_narrow(id, *b, kept_b);
      return;
    }
    Expr depth = 1;
    for (std::size_t d = 0; d < kept_b.size(); ++d) {
      if (!kept_b[d]) depth = depth * given.b.sizes[d];
    }
    if (sums == DType::f32) {
      // The sum must not wrap.
      const std::int64_t most = bounds(depth).max;
      if (most > std::numeric_limits<std::int32_t>::max() / (a->largest * b->largest)) return;
    }
    std::optional<Sums> taps, counts;
    if (convolution != nullptr) {
      // Zero points of weights that stay would need sums of windows.
      const auto classes = a->zero ? tap_classes(graph_, *convolution) : std::optional(TapClasses());
      if (!classes || b->stored ||
          graph_[root_storage(graph_, b->bytes.buffer)].kind != StorageKind::constant)
        return;
      shrink_constant(*b, kept_b);
      if (a->zero) {
        taps = tap_sums(graph_, *classes, b->bytes, given.out);
        if (!taps) return;
        if (b->zero) counts = tap_counts(graph_, *classes, b->bytes);
      }
    }
    const bool same_producer = a->producer == b->producer && a->stored && b->stored;
    store_bytes(*a);
    if (same_producer) {
      b = match(as_product(graph_[id].kernel)->b, sums, kept_b, sizes);
      internal_check(b.has_value(), "integer_products: '{}' lost its operand", graph_[id].name);
    }
    store_bytes(*b);
    shrink_constant(*b, kept_b);
    for (const Operand* o : {&*a, &*b}) {
      if (o->producer.valid()) narrowed_from_.insert(o->producer);
    }

    rewrite(id, sums, *a, *b, {taps, counts, depth});
  }

  // Sums of the weights under each window, where windows make the result.
  struct OfWindows {
    std::optional<Sums> taps, counts;
    Expr depth;  // elements in a sum
  };

  // Multiplies bytes. The epilogue begins with the sum of differences.
  void rewrite(OpId id, DType sums, const Operand& a, const Operand& b, const OfWindows& of_windows) {
    const std::size_t rank = as_product(graph_[id].kernel)->out.sizes.size();
    BodyBuilder body(*graph_.pool);
    std::vector<Expr> same;
    for (std::size_t d = 0; d < rank; ++d) same.push_back(graph_.pool->index(d));
    const auto inlined = [&](const LoopBody& part) { return body.inline_body(part, same); };
    const auto minus_times = [&](ValueId from, ValueId zero, ValueId sum) {
      return body.binary(OpCode::sub, from, body.binary(OpCode::mul, zero, sum));
    };
    const auto load = [&](const Sums& sums) { return body.load(sums.buffer, DType::i32, sums.index); };
    ValueId value = body.acc(DType::i32);
    std::optional<ValueId> za, zb;
    if (a.zero) za = body.cast(inlined(*a.zero), DType::i32);
    if (b.zero) zb = body.cast(inlined(*b.zero), DType::i32);
    if (za) {
      // If b has zero points, sums its differences: they include the product of both zero points.
      ValueId sum = load(of_windows.taps ? *of_windows.taps : sums_of(b.bytes, rank - 2, id, column_sums_));
      if (zb)
        sum = minus_times(
            sum, *zb,
            of_windows.counts ? load(*of_windows.counts) : body.index(of_windows.depth, DType::i32));
      value = minus_times(value, *za, sum);
    }
    if (zb) {
      const bool windows = graph_[id].as<Convolution>() != nullptr;
      value = minus_times(
          value, *zb,
          load(windows ? sums_of_windows(id, a.bytes) : sums_of(a.bytes, rank - 1, id, row_sums_)));
    }
    if (sums == DType::f32) {
      value = body.cast(value, DType::f32);
      std::optional<ValueId> scale;
      for (const Operand* o : {&a, &b}) {
        if (!o->scale) continue;
        const ValueId own = inlined(*o->scale);
        scale = scale ? body.binary(OpCode::mul, *scale, own) : own;
      }
      if (scale) value = body.binary(OpCode::mul, value, *scale);
    }
    Product& product = *as_product(graph_[id].kernel);
    product.a = a.bytes;
    product.b = b.bytes;
    set_epilogue(id, body, value, same);
  }

  // f32 rows with constant weights of 8 bits: the product reads these, and its epilogue applies their scale.
  void keep_weights_narrow(OpId id, Operand b, const Kept& kept) {
    const Gemm& gemm = *graph_[id].as<Gemm>();
    const std::size_t rank = gemm.out.sizes.size();
    const StorageId root = root_storage(graph_, b.bytes.buffer);
    if (b.stored || graph_[root].kind != StorageKind::constant || !gemm.out.strides.back().is_constant(1))
      return;
    for (std::size_t d = 0; d < rank; ++d) {
      const Expr size = b.bytes.sizes[d];
      if (d + 2 < rank ? !b.bytes.strides[d].is_constant(0) && !size.is_constant(1)
                       : !size.is_constant() || size.is_constant(0))
        return;
    }
    if (!b.bytes.offset.is_constant() || !shrink_constant(b, kept)) return;
    BodyBuilder body(*graph_.pool);
    std::vector<Expr> same;
    for (std::size_t d = 0; d < rank; ++d) same.push_back(graph_.pool->index(d));
    ValueId value = body.acc(DType::f32);
    if (b.scale) value = body.binary(OpCode::mul, value, body.inline_body(*b.scale, same));
    narrowed_from_.insert(b.producer);
    Product& product = *as_product(graph_[id].kernel);
    product.b = b.bytes;
    set_epilogue(id, body, value, same);
  }

  // The epilogue that computes `value`, and what the old one did with it.
  void set_epilogue(OpId id, BodyBuilder& body, ValueId value, const std::vector<Expr>& indices) {
    Product& product = *as_product(graph_[id].kernel);
    const DType out = graph_[product.out.buffer].dtype;
    product.post_ops.clear();
    value = product.epilogue ? body.inline_body(*product.epilogue, indices, value) : body.cast(value, out);
    LoopBody epilogue = body.finish(value);
    const bool plain = epilogue.instrs.size() == 1 && epilogue.instrs[0].code == OpCode::acc;
    product.epilogue = plain ? std::nullopt : std::optional(std::move(epilogue));
    graph_[id].cost.reset();
    changed_ = true;
  }

  // Replaces constant u8 weights by their differences to their constant zero point if all of these fit i8.
  // Returns whether no zero point is left.
  bool shrink_constant(Operand& b, const Kept& kept) {
    if (!b.zero) return true;
    if (graph_[b.bytes.buffer].dtype != DType::u8) return false;
    std::vector<std::size_t> along;
    for (std::size_t d = 0; d < kept.size(); ++d) {
      if (!kept[d]) along.push_back(d);
    }
    std::vector<Expr> sizes = b.bytes.sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!b.bytes.strides[d].is_constant(0)) continue;
      sizes[d] = 1;
      for (const Instr& instr : b.own_zero->instrs) {
        if (contains(instr.index, graph_.pool->index(d))) return false;
      }
    }
    std::optional<ConstantData> data = constant_differences(graph_, b.bytes, *b.own_zero, along);
    if (!data) return false;
    for (const auto& [from, to] : shrunk_) {
      if (from == b.bytes &&
          graph_[graph_[to.buffer].storage].data.per_rank.size() == data->per_rank.size()) {
        bool equal = true;
        const auto& known = graph_[graph_[to.buffer].storage].data.per_rank;
        for (std::size_t r = 0; r < known.size(); ++r)
          equal = equal && std::equal(known[r].begin(), known[r].end(), data->per_rank[r].begin(),
                                      data->per_rank[r].end());
        if (!equal) continue;
        b.bytes = to;
        b.zero.reset();
        return true;
      }
    }
    const BufferId to =
        graph_.add_owned(graph_[b.bytes.buffer].name + ".i8", DType::i8, sizes, StorageKind::constant);
    graph_[graph_[to].storage].data = std::move(*data);
    TensorRef view = whole(graph_, to);
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (b.bytes.strides[d].is_constant(0)) view.strides[d] = 0;
    }
    view.sizes = b.bytes.sizes;
    shrunk_.emplace_back(b.bytes, view);
    b.bytes = view;
    b.zero.reset();
    return true;
  }
};

}  // namespace

bool IntegerProducts::run(Schedule& schedule, PassContext& context) {
  return Rewriter(schedule, float_products && context.kernels.fast_byte_sums).run();
}

}  // namespace braid::passes
