// Convolutions, pools, recurrent layers and attention.
#include <algorithm>

#include "ir/error.h"
#include "ir/lowering_internal.h"
#include "ir/typing.h"

namespace braid::ir {

// Existing memory with any strides that do not run backwards.
TensorRef Lowering::view_operand(TensorBox x) {
  x = realize(std::move(x));
  const std::optional<TensorRef> ref = strided(x);
  return ref && runs_forwards(*ref) ? *ref : *strided(copy(x));
}

bool Lowering::runs_forwards(const TensorRef& view) const {
  const auto by_guard = [&](Expr stride) {
    return std::ranges::any_of(graph_.guards, [&](const Guard& guard) {
      if (guard.relation != Guard::Relation::less_equal) return false;
      const std::optional<Expr> factor = divide_exactly(stride, guard.rhs - guard.lhs);
      return factor && provably_non_negative(*factor);
    });
  };
  return std::ranges::all_of(view.strides, [&](Expr s) { return provably_non_negative(s) || by_guard(s); });
}

// New memory for [n, spatial..., channels], stored as [n, channels, spatial...].
TensorRef Lowering::channels_last(const std::string& name, DType dtype, const Expr& batch,
                                  std::vector<Expr> spatial, const Expr& channels) {
  std::vector<Expr> sizes = {batch, channels};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  TensorRef ref = whole(graph_, graph_.add_owned(name, dtype, std::move(sizes)));
  std::rotate(ref.sizes.begin() + 1, ref.sizes.begin() + 2, ref.sizes.end());
  std::rotate(ref.strides.begin() + 1, ref.strides.begin() + 2, ref.strides.end());
  return ref;
}

namespace {

std::vector<int> channels_to_the_end(std::size_t rank) {
  std::vector<int> order = {0};
  for (std::size_t d = 2; d < rank; ++d) order.push_back(static_cast<int>(d));
  order.push_back(1);
  return order;
}

}  // namespace

TensorBox Lowering::convolution(TensorBox a, TensorBox b, std::vector<Window> windows,
                                std::vector<Expr> spatial, bool transposed) {
  const std::size_t n = windows.size();
  require_equal(a.sizes().back(), b.sizes()[0] * b.sizes()[n + 1]);
  Convolution k;
  k.a = view_operand(std::move(a));
  k.b = view_operand(std::move(b));
  k.windows = std::move(windows);
  k.transposed = transposed;
  const DType dtype = graph_[k.a.buffer].dtype;
  k.out = channels_last(origin_.empty() ? "convolution" : origin_,
                        is_float(dtype) ? dtype : accumulator_of(dtype), k.a.sizes[0], std::move(spatial),
                        k.b.sizes[0] * k.b.sizes[n + 2]);
  const BufferId out = k.out.buffer;
  const std::size_t rank = k.out.sizes.size();
  emit({graph_[out].name, std::move(k), {out}, {origin_}, std::nullopt});
  return permute(from_buffer(out), channels_to_the_end(rank));
}

TensorBox Lowering::pool(PoolKind kind, TensorBox x, std::vector<Window> windows, std::vector<Expr> spatial) {
  Pooling k;
  k.kind = kind;
  k.x = view_operand(std::move(x));
  k.windows = std::move(windows);
  k.out = channels_last(origin_.empty() ? "pool" : origin_,
                        kind == PoolKind::arg_max ? DType::i64 : graph_[k.x.buffer].dtype, k.x.sizes[0],
                        std::move(spatial), k.x.sizes.back());
  const BufferId out = k.out.buffer;
  const std::size_t rank = k.out.sizes.size();
  emit({graph_[out].name, std::move(k), {out}, {origin_}, std::nullopt});
  return permute(from_buffer(out), channels_to_the_end(rank));
}

std::vector<TensorBox> Lowering::recurrence(Recurrence layer, const RecurrenceOperands& operands) {
  layer.gates = extern_operand(operands.gates, false);
  layer.weights = view_operand(operands.weights);
  layer.initial_h = extern_operand(operands.initial_h, false);
  const auto given = [&](std::optional<TensorRef>& ref, const TensorBox& box) {
    if (box.valid()) ref = extern_operand(box, false);
  };
  given(layer.bias, operands.bias);
  given(layer.initial_c, operands.initial_c);
  given(layer.peepholes, operands.peepholes);
  given(layer.lengths, operands.lengths);
  const DType dtype = graph_[layer.gates.buffer].dtype;
  const Expr steps = layer.gates.sizes[0], batch = layer.gates.sizes[1], hidden = layer.weights.sizes[0];
  const std::string name = origin_.empty() ? std::string(to_string(layer.cell)) : origin_;
  std::vector<BufferId> outputs = {graph_.add_owned(name, dtype, {steps, batch, hidden}),
                                   graph_.add_owned(name + ".h", dtype, {batch, hidden})};
  if (layer.cell == CellKind::lstm) outputs.push_back(graph_.add_owned(name + ".c", dtype, {batch, hidden}));
  outputs.push_back(graph_.add_owned(name + ".work", accumulator_of(dtype), {batch, layer.weights.sizes[1]}));
  for (BufferId out : outputs) layer.results.push_back(whole(graph_, out));
  emit({graph_[outputs[0]].name, std::move(layer), outputs, {origin_}, std::nullopt});
  outputs.pop_back();
  std::vector<TensorBox> boxes;
  for (BufferId out : outputs) boxes.push_back(from_buffer(out));
  return boxes;
}

// Removes repeated key heads: returns a view with one head for each group of heads that read the same
// elements. Requires that dimension 1 of the view appears only in quotients by the size of the group;
// otherwise returns x.
TensorBox Lowering::without_repeated_heads(const TensorBox& x) {
  if (x.rank() != 4 || !x.sizes()[1].is_constant()) return x;
  const std::int64_t heads = x.sizes()[1].constant();
  for (std::int64_t shared = heads; shared > 1; --shared) {
    if (heads % shared != 0) continue;
    // Head h = shared * i1 + i4 must read the same for every i4.
    std::vector<Expr> sizes = x.sizes(), map = index_symbols(pool(), 4);
    sizes[1] = heads / shared;
    sizes.push_back(shared);
    map[1] = map[1] * shared + pool().index(4);
    const TensorBox split = view(x, sizes, map);
    bool repeats = true;
    for (const Expr& e : split.map_) for_each_symbol(e, [&](Expr s) { repeats &= !(s == pool().index(4)); });
    if (!repeats) continue;
    sizes.pop_back();
    map[1] = pool().index(1) * shared;
    return view(x, std::move(sizes), std::move(map));
  }
  return x;
}

TensorBox Lowering::attention(Attention k, AttentionViews operands) {
  k.query = view_operand(std::move(operands.query));
  TensorBox key = without_repeated_heads(operands.key), value = without_repeated_heads(operands.value);
  if (key.sizes()[1] == value.sizes()[1]) operands.key = std::move(key), operands.value = std::move(value);
  k.key = view_operand(std::move(operands.key));
  k.value = view_operand(std::move(operands.value));
  const std::vector<Expr>& q = k.query.sizes;
  if (operands.mask.valid())
    k.mask = view_operand(expand(realize(std::move(operands.mask)), {q[0], q[1], q[2], k.key.sizes[2]}));
  if (operands.valid_keys.valid()) k.valid_keys = view_operand(std::move(operands.valid_keys));
  if (operands.positions.valid()) k.positions = view_operand(std::move(operands.positions));
  const BufferId out = graph_.add_owned(origin_.empty() ? "attention" : origin_, graph_[k.query.buffer].dtype,
                                        {q[0], q[1], q[2], k.value.sizes[3]});
  graph_[out].layout = FlexibleLayout{};
  k.out = whole(graph_, out);
  emit({graph_[out].name, std::move(k), {out}, {origin_}, std::nullopt});
  return from_buffer(out);
}

}  // namespace braid::ir
