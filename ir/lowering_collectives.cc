// Collectives on buffers of the communication segment, and graph outputs.
#include <algorithm>

#include "ir/collective_table.h"
#include "ir/comm_buffer.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/lowering_internal.h"

namespace braid::ir {

// A value computed by our kernels may become a graph output in place: they fill the whole storage through
// this buffer.
Storage* Lowering::movable_storage(const TensorBox& x) {
  const auto* id = std::get_if<BufferId>(&x.box_->data);
  if (!id) return nullptr;
  const Buffer& b = graph_[*id];
  if (!b.storage.valid() || graph_[b.storage].kind != StorageKind::activation) return nullptr;
  // No producer: a concatenation, filled through its slices.
  const Operation* producer = b.producer.valid() ? &graph_[b.producer] : nullptr;
  if (producer != nullptr && !producer->as<Loops>() && !producer->as<Gemm>() && !producer->as<Attention>() &&
      !producer->as<Pooling>() && !producer->as<ExternKernel>())
    return nullptr;
  freeze(*id);
  const std::optional<TensorRef> ref = strided(x);
  if (!ref || !ref->offset.is_constant(0) || !is_contiguous(ref->sizes, ref->strides) ||
      !(numel(ref->sizes) == numel(b.sizes))) {
    return nullptr;
  }
  return &graph_[b.storage];
}

TensorRef Lowering::comm_input(const TensorBox& x, GroupId group) {
  const auto claim = [&](BufferId id, TensorRef ref) {
    make_comm_buffer(graph_, id, group, CommBufferKind::symmetric);
    return ref;
  };
  const auto copy_in = [&] {
    const TensorBox copied = copy(x);
    const BufferId id = std::get<BufferId>(copied.box_->data);
    return claim(id, whole(graph_, id));
  };
  // A deferred computation is realized in the order in which the collective reads it.
  if (lazy_and_reordered(x)) return copy_in();
  const BufferId id = realize_box(*x.box_);
  if (!freeze_permuted(x)) freeze(id);
  const std::optional<TensorRef> view = strided(x);
  const CommBufferReason answer = can_be_comm_buffer(graph_, id, view, group, CommBufferKind::symmetric);
  if (in_place(answer)) return claim(id, *view);
  // One copy serves all users of the same value.
  if (!view) return copy_in();
  for (const auto& [of, copied] : copied_in_[id]) {
    if (of == *view) return claim(copied.buffer, copied);
  }
  TensorRef copied = copy_in();
  copied_in_[id].emplace_back(*view, copied);
  return copied;
}

BufferId Lowering::landing_buffer(const std::string& name, DType dtype, std::vector<Expr> sizes,
                                  GroupId group) {
  const BufferId out = graph_.add_owned(name, dtype, sizes, StorageKind::comm);
  graph_[graph_[out].storage].comm_kind = CommBufferKind::registered;
  make_comm_buffer(graph_, out, group, CommBufferKind::registered);
  return out;
}

Lowering::Started Lowering::start_collective(CollectiveKernel kernel, const std::vector<TensorBox>& xs,
                                             DType dtype, const std::vector<std::vector<Expr>>& out_sizes) {
  Started started;
  started.name = origin_.empty() ? std::string(to_string(kernel.kind)) : origin_;
  started.blocking = kernel.blocking;
  for (const TensorBox& x : xs) kernel.inputs.push_back(comm_input(x, kernel.group));
  for (const std::vector<Expr>& sizes : out_sizes) {
    started.outputs.push_back(landing_buffer(started.name, dtype, sizes, kernel.group));
    kernel.outputs.push_back(whole(graph_, started.outputs.back()));
  }
  started.op = emit({started.name + (kernel.blocking ? "" : ".start"),
                     std::move(kernel),
                     started.outputs,
                     {origin_},
                     std::nullopt});
  return started;
}

std::vector<TensorBox> Lowering::wait_for(const Started& started) {
  std::vector<BufferId> waited = started.outputs;
  if (!started.blocking) {
    for (BufferId& out : waited) out = graph_.add_mutation(out, started.name + ".wait");
    emit({started.name + ".wait", WaitKernel{started.op}, waited, {origin_}, std::nullopt});
  }
  std::vector<TensorBox> results;
  for (BufferId out : waited) results.push_back(from_buffer(out));
  return results;
}

void Lowering::release(const Started& started) {
  if (started.blocking) return;
  emit({started.name + ".release", ReleaseKernel{started.op}, {}, {origin_}, std::nullopt});
}

std::vector<TensorBox> Lowering::finish_collective(const Started& started) {
  std::vector<TensorBox> results = wait_for(started);
  release(started);
  return results;
}

TensorBox Lowering::collective(CollectiveKernel kernel, const TensorBox& x, DType dtype,
                               std::vector<Expr> out_sizes) {
  std::vector<std::vector<Expr>> outs;
  if (row_of(kernel.kind).out != Blocks::none) outs.push_back(std::move(out_sizes));
  std::vector<TensorBox> inputs;
  if (x.valid()) inputs.push_back(x);
  const std::vector<TensorBox> results =
      finish_collective(start_collective(std::move(kernel), inputs, dtype, outs));
  return results.empty() ? TensorBox{} : results[0];
}

std::vector<TensorBox> Lowering::all_reduce(const std::vector<TensorBox>& xs, GroupId group,
                                            ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_reduce;
  k.group = group;
  k.reduce = kind;
  std::vector<std::vector<Expr>> sizes;
  for (const TensorBox& x : xs) sizes.push_back(x.sizes());
  return finish_collective(start_collective(std::move(k), xs, xs.at(0).dtype(), sizes));
}

TensorBox Lowering::all_reduce(TensorBox x, GroupId group, ReduceKind kind) {
  return all_reduce(std::vector<TensorBox>{std::move(x)}, group, kind)[0];
}

// [..., n*d, ...] -> [n, ..., d, ...]: a view.
TensorBox Lowering::slabs_first(TensorBox x, int axis, std::int64_t n) {
  const auto a = static_cast<std::size_t>(axis);
  const std::optional<Expr> part = divide_exactly(x.sizes()[a], n);
  if (!part) {
    user_error(errors::kSizesDiffer, {.node = origin_},
               fmt::format("axis {} of size {} cannot be divided evenly among {} ranks", axis,
                           to_string(x.sizes()[a]), n));
  }
  std::vector<Expr> unfolded = x.sizes();
  unfolded[a] = *part;
  unfolded.insert(unfolded.begin() + axis, Expr(n));
  std::vector<int> order{axis};
  for (int d = 0; d < static_cast<int>(unfolded.size()); ++d) {
    if (d != axis) order.push_back(d);
  }
  return permute(reshape(std::move(x), std::move(unfolded)), order);
}

// [n, ..., d, ...] -> [..., n, d, ...] -> [..., n*d, ...]: a view, or one copy.
TensorBox Lowering::slabs_along(TensorBox all, int axis) {
  const Expr n = all.sizes()[0];
  std::vector<Expr> sizes(all.sizes().begin() + 1, all.sizes().end());
  std::vector<int> order;
  for (int d = 1; d <= static_cast<int>(sizes.size()); ++d) {
    if (d == axis + 1) order.push_back(0);
    order.push_back(d);
  }
  const auto a = static_cast<std::size_t>(axis);
  const Expr part = sizes[a];
  sizes[a] = part * n;
  if (numel(sizes).is_constant(0))  // no element is ever accessed, and 0 cannot be a divisor
    return view(std::move(all), std::move(sizes), std::vector<Expr>(order.size(), 0));
  // result[.., j, ..] = all[j / part, .., j % part, ..]
  std::vector<Expr> map = index_symbols(pool(), sizes.size());
  const Expr j = map[a];
  map[a] = simplify(mod(j, part), sizes);
  map.insert(map.begin(), simplify(floor_div(j, part), sizes));
  TensorBox out = view(all, sizes, map);
  if (cheap_to_index(out)) return out;
  // Copying slab by slab needs no division: one strided loop over [..., n, d, ...].
  TensorBox unfolded = copy(permute(std::move(all), order));
  std::optional<std::vector<Expr>> folded = reshape_map(unfolded, sizes);
  internal_check(folded.has_value(), "slabs along axis {} do not fold", axis);
  return view(std::move(unfolded), std::move(sizes), *folded);
}

std::vector<TensorBox> Lowering::all_gather(const std::vector<TensorBox>& xs, GroupId group,
                                            const std::vector<int>& axes) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_gather;
  k.group = group;
  const auto n = graph_[group].size();
  std::vector<std::vector<Expr>> slabs;
  for (const TensorBox& x : xs) {
    slabs.push_back(x.sizes());
    slabs.back().insert(slabs.back().begin(), Expr(n));
  }
  std::vector<TensorBox> all = finish_collective(start_collective(std::move(k), xs, xs.at(0).dtype(), slabs));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = slabs_along(std::move(all[i]), axes.at(i));
  return all;
}

TensorBox Lowering::all_gather(TensorBox x, GroupId group, int axis) {
  return all_gather(std::vector<TensorBox>{std::move(x)}, group, {axis})[0];
}

std::vector<TensorBox> Lowering::reduce_scatter(const std::vector<TensorBox>& xs, GroupId group,
                                                const std::vector<int>& axes, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::reduce_scatter;
  k.group = group;
  k.reduce = kind;
  const auto n = graph_[group].size();
  std::vector<TensorBox> slabs;
  std::vector<std::vector<Expr>> sizes;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const auto a = static_cast<std::size_t>(axes.at(i));
    const std::optional<Expr> part = divide_exactly(xs[i].sizes()[a], n);
    if (!part) {
      user_error(errors::kSizesDiffer, {.node = origin_},
                 fmt::format("axis {} of size {} cannot be scattered evenly over {} ranks", axes[i],
                             to_string(xs[i].sizes()[a]), n));
    }
    sizes.push_back(xs[i].sizes());
    sizes.back()[a] = *part;
    slabs.push_back(axes[i] == 0 ? xs[i] : slabs_first(xs[i], axes[i], n));
  }
  return finish_collective(start_collective(std::move(k), slabs, xs.at(0).dtype(), sizes));
}

TensorBox Lowering::reduce_scatter(TensorBox x, GroupId group, int axis, ReduceKind kind) {
  return reduce_scatter(std::vector<TensorBox>{std::move(x)}, group, {axis}, kind)[0];
}

TensorBox Lowering::all_to_all(TensorBox x, GroupId group, int split_axis, int concat_axis, bool blocking) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_to_all;
  k.group = group;
  k.blocking = blocking;
  const auto n = graph_[group].size();
  const DType dtype = x.dtype();
  if (split_axis == 0 && concat_axis == 0) {  // the slabs lie and stay where they are
    if (!divide_exactly(numel(x.sizes()), n)) {
      user_error(
          errors::kSizesDiffer, {.node = origin_},
          fmt::format("{} elements cannot be divided evenly among {} ranks", to_string(numel(x.sizes())), n));
    }
    std::vector<Expr> sizes = x.sizes();
    return collective(std::move(k), x, dtype, std::move(sizes));
  }
  const TensorBox slabs = slabs_first(std::move(x), split_axis, n);
  return slabs_along(collective(std::move(k), slabs, dtype, slabs.sizes()), concat_axis);
}

std::vector<TensorBox> Lowering::batch_send_recv(const TensorBox& x, const std::vector<GroupId>& pairs) {
  std::vector<Started> transfers;
  // Pair by pair: if transfers block each other (on a CUDA stream), both sides are at the same pair.
  for (const GroupId pair : pairs) {
    for (const CollectiveKind kind : {CollectiveKind::send, CollectiveKind::recv}) {
      CollectiveKernel k;
      k.kind = kind;
      k.group = pair;
      k.root = kind == CollectiveKind::send ? 1 : 0;
      const bool sends = kind == CollectiveKind::send;
      transfers.push_back(start_collective(
          std::move(k), sends ? std::vector<TensorBox>{x} : std::vector<TensorBox>{}, x.dtype(),
          sends ? std::vector<std::vector<Expr>>{} : std::vector<std::vector<Expr>>{x.sizes()}));
    }
  }
  std::vector<TensorBox> came;
  // A send's release needs its receiver's wait: on a ring, releases before all waits would deadlock.
  for (auto t = transfers.rbegin(); t != transfers.rend(); ++t) {
    for (TensorBox& result : wait_for(*t)) came.insert(came.begin(), std::move(result));
  }
  for (const Started& t : transfers) release(t);
  return came;
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
  // A tensor in the layout of an input that grows (grow_in_place()): it may come to lie there.
  if (const auto* grown = std::get_if<BufferId>(&x.box_->data);
      grown && !is_contiguous(graph_[*grown].sizes, strides_of(graph_, *grown)) &&
      strided(x) == whole(graph_, *grown)) {
    const Buffer& b = graph_[*grown];
    const bool ours = !b.producer.valid() || graph_[b.producer].as<Loops>() != nullptr;
    if (ours && b.storage.valid() && graph_[b.storage].kind == StorageKind::activation) {
      graph_[b.storage].kind = StorageKind::output;
      graph_.outputs.push_back({name, *grown});
      return;
    }
  }
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
