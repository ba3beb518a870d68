// Convolutions, pools and recurrent layers.
#include <algorithm>

#include "ir/error.h"
#include "ir/lowering_internal.h"
#include "ir/typing.h"

namespace braid::ir {

// Existing memory with any strides that do not run backwards.
TensorRef Lowering::view_operand(TensorBox x) {
  x = realize(std::move(x));
  const std::optional<TensorRef> ref = strided(x);
  const bool usable = ref && std::all_of(ref->strides.begin(), ref->strides.end(),
                                         [](Expr s) { return provably_non_negative(s); });
  return usable ? *ref : *strided(copy(x));
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

}  // namespace braid::ir
