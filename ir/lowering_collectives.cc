// Collectives on buffers of the communication segment, and graph outputs.
#include <algorithm>

#include "ir/error.h"
#include "ir/lowering_internal.h"

namespace braid::ir {

// Moving is allowed where a kernel of ours fills the whole storage through this very buffer.
Storage* Lowering::movable_storage(const TensorBox& x) {
  const auto* id = std::get_if<BufferId>(&x.box_->data);
  if (!id) return nullptr;
  const Buffer& b = graph_[*id];
  if (!b.storage.valid() || graph_[b.storage].kind != StorageKind::activation) return nullptr;
  // No producer: a concatenation, filled through its slices.
  if (b.producer.valid() && !graph_[b.producer].as<Loops>() && !graph_[b.producer].as<Gemm>()) return nullptr;
  freeze(*id);
  const std::optional<TensorRef> ref = strided(x);
  if (!ref || !ref->offset.is_constant(0) || !is_contiguous(ref->sizes, ref->strides) ||
      !(numel(ref->sizes) == numel(b.sizes))) {
    return nullptr;
  }
  return &graph_[b.storage];
}

TensorRef Lowering::comm_input(const TensorBox& x, GroupId group) {
  auto prepare = [&](TensorBox t) {
    const BufferId id = std::get<BufferId>(t.box_->data);
    Storage& storage = graph_[graph_[id].storage];
    storage.kind = StorageKind::comm;
    storage.comm_kind = CommBufferKind::symmetric;
    storage.group = group;
    graph_[id].layout = CommBufferLayout{strides_of(graph_, id), CommBufferKind::symmetric, group};
    return TensorRef{id, 0, t.sizes(), contiguous_strides(t.sizes())};
  };
  // Realize what is still lazy, then let the producer write straight into the segment where its storage can
  // move there.
  if (lazy_and_reordered(x)) return prepare(copy(x));
  realize_box(*x.box_);
  if (movable_storage(x)) return prepare(x);
  // Already a comm buffer of this group and not the landing place of another collective: nothing to do.
  const BufferId id = std::get<BufferId>(x.box_->data);
  if (const auto* comm = std::get_if<CommBufferLayout>(&graph_[id].layout); comm && comm->group == group) {
    const std::optional<TensorRef> ref = strided(x);
    if (ref && is_contiguous(ref->sizes, ref->strides)) return *ref;
  }
  return prepare(copy(x));
}

TensorBox Lowering::collective(CollectiveKernel kernel, const TensorBox& x, DType dtype,
                               std::vector<Expr> out_sizes) {
  const std::string name = origin_.empty() ? std::string(to_string(kernel.kind)) : origin_;
  if (x.valid()) kernel.inputs = {comm_input(x, kernel.group)};
  const GroupId group = kernel.group;
  const bool has_result = kernel.kind != CollectiveKind::send;
  std::vector<BufferId> outs;
  if (has_result) {
    const BufferId out = graph_.add_owned(name, dtype, out_sizes, StorageKind::comm);
    Storage& storage = graph_[graph_[out].storage];
    storage.comm_kind = CommBufferKind::registered;
    storage.group = group;
    graph_[out].layout = CommBufferLayout{contiguous_strides(out_sizes), CommBufferKind::registered, group};
    kernel.outputs = {whole(graph_, out)};
    outs = {out};
  }
  const OpId start = emit({name + ".start", std::move(kernel), outs, {origin_}, std::nullopt});
  std::vector<BufferId> waited;
  if (has_result) waited = {graph_.add_mutation(outs[0], name + ".wait")};
  emit({name + ".wait", WaitKernel{start}, waited, {origin_}, std::nullopt});
  emit({name + ".release", ReleaseKernel{start}, {}, {origin_}, std::nullopt});
  return has_result ? from_buffer(waited[0]) : TensorBox{};
}

TensorBox Lowering::all_reduce(TensorBox x, GroupId group, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_reduce;
  k.group = group;
  k.reduce = kind;
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

TensorBox Lowering::all_gather(TensorBox x, GroupId group, int axis) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_gather;
  k.group = group;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  std::vector<Expr> slabs = x.sizes();
  slabs.insert(slabs.begin(), Expr(n));
  TensorBox all = collective(std::move(k), x, x.dtype(), slabs);
  // [n, ..., d, ...] -> [..., n, d, ...] -> [..., n*d, ...]: views only.
  std::vector<int> order;
  for (int d = 1; d <= static_cast<int>(x.rank()); ++d) {
    if (d == axis + 1) order.push_back(0);
    order.push_back(d);
  }
  std::vector<Expr> sizes = x.sizes();
  const auto a = static_cast<std::size_t>(axis);
  const Expr part = sizes[a];
  sizes[a] = part * n;
  // result[.., j, ..] = all[j / part, .., j % part, ..]
  std::vector<Expr> map = index_symbols(pool(), x.rank());
  const Expr j = map[a];
  map[a] = simplify(mod(j, part), sizes);
  map.insert(map.begin(), simplify(floor_div(j, part), sizes));
  TensorBox out = view(all, sizes, map);
  if (cheap_to_index(out)) return out;
  // Copying slab by slab needs no division: one strided loop over [..., n, d, ...].
  TensorBox unfolded = copy(permute(std::move(all), order));
  std::optional<std::vector<Expr>> folded = reshape_map(unfolded, sizes);
  internal_check(folded.has_value(), "an all-gather's result does not fold");
  return view(std::move(unfolded), std::move(sizes), *folded);
}

TensorBox Lowering::reduce_scatter(TensorBox x, GroupId group, int axis, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::reduce_scatter;
  k.group = group;
  k.reduce = kind;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  const auto a = static_cast<std::size_t>(axis);
  const std::optional<Expr> part = divide_exactly(x.sizes()[a], n);
  if (!part) {
    user_error(kSizesDiffer, {.node = origin_},
               fmt::format("axis {} of size {} cannot be scattered evenly over {} ranks", axis,
                           to_string(x.sizes()[a]), n));
  }
  std::vector<Expr> sizes = x.sizes();
  sizes[a] = *part;
  if (axis != 0) {
    // [..., n, d, ...] -> [n, ..., d, ...]
    std::vector<Expr> unfolded = x.sizes();
    unfolded[a] = *part;
    unfolded.insert(unfolded.begin() + axis, Expr(n));
    std::vector<int> order{axis};
    for (int d = 0; d <= static_cast<int>(x.rank()); ++d) {
      if (d != axis) order.push_back(d);
    }
    x = permute(reshape(std::move(x), std::move(unfolded)), order);
  }
  return collective(std::move(k), x, x.dtype(), std::move(sizes));
}

TensorBox Lowering::all_to_all(TensorBox x, GroupId group) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_to_all;
  k.group = group;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  if (!divide_exactly(numel(x.sizes()), n)) {
    user_error(kSizesDiffer, {.node = origin_},
               fmt::format("{} elements cannot be dealt evenly to {} ranks", to_string(numel(x.sizes())), n));
  }
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

TensorBox Lowering::broadcast(TensorBox x, GroupId group, int root) {
  CollectiveKernel k;
  k.kind = CollectiveKind::broadcast;
  k.group = group;
  k.root = root;
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

void Lowering::send(TensorBox x, GroupId group, int peer) {
  CollectiveKernel k;
  k.kind = CollectiveKind::send;
  k.group = group;
  k.root = peer;
  collective(std::move(k), x, x.dtype(), {});
}

TensorBox Lowering::recv(DType dtype, std::vector<Expr> sizes, GroupId group, int peer) {
  CollectiveKernel k;
  k.kind = CollectiveKind::recv;
  k.group = group;
  k.root = peer;
  return collective(std::move(k), {}, dtype, std::move(sizes));
}

void Lowering::output(const std::string& name, TensorBox x) {
  const bool reordered = lazy_and_reordered(x);
  if (!reordered) realize_box(*x.box_);
  if (Storage* storage = reordered ? nullptr : movable_storage(x)) {
    const BufferId b = std::get<BufferId>(x.box_->data);
    storage->kind = StorageKind::output;
    if (graph_[b].sizes == x.sizes()) {
      graph_.outputs.push_back({name, b});
      return;
    }
    // The same memory in another shape.
    Buffer shaped;
    shaped.name = name;
    shaped.dtype = x.dtype();
    shaped.sizes = x.sizes();
    shaped.layout = NonOwningLayout{b, 0, contiguous_strides(x.sizes())};
    graph_.outputs.push_back({name, graph_.add_buffer(std::move(shaped))});
    return;
  }
  const TensorBox copied = copy(x, StorageKind::output);
  graph_.outputs.push_back({name, std::get<BufferId>(copied.box_->data)});
}

}  // namespace braid::ir
