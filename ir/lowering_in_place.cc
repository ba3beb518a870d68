// Collectives that change their operand or write into existing memory.
//
// A box is changed by giving it the new name of its memory, so every view of it sees the change. Computations
// from the old value that are not yet realized are realized before. If the memory cannot be used (it is the
// caller's, a strided part, or read by peers of another group), the collective works on a copy, which becomes
// the value or is written back.
#include <algorithm>

#include "ir/comm_buffer.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/lowering_internal.h"

namespace braid::ir {

void Lowering::track(const std::shared_ptr<StorageBox>& box) {
  if (boxes_.size() >= 2 * tracked_ + 64) {
    std::erase_if(boxes_, [](const std::weak_ptr<StorageBox>& b) { return b.expired(); });
    tracked_ = boxes_.size();
  }
  boxes_.push_back(box);
}

// Realizes deferred computations that read this memory, since they would read its new contents.
void Lowering::realize_readers(StorageId storage) {
  for (std::size_t k = 0; k < boxes_.size(); ++k) {
    const std::shared_ptr<StorageBox> box = boxes_[k].lock();
    if (!box || box->realized()) continue;
    const auto* pointwise = std::get_if<Pointwise>(&box->data);
    const LoopBody& body = pointwise ? pointwise->body : std::get<Reduction>(box->data).body;
    const bool reads = std::any_of(body.instrs.begin(), body.instrs.end(), [&](const Instr& i) {
      return i.code == OpCode::load && root_storage(graph_, i.buffer) == storage;
    });
    if (reads) realize_box(*box);
  }
}

void Lowering::rename(BufferId from, BufferId to) {
  for (const std::weak_ptr<StorageBox>& tracked : boxes_) {
    const std::shared_ptr<StorageBox> box = tracked.lock();
    if (!box) continue;
    if (auto* held = std::get_if<BufferId>(&box->data); held && *held == from) *held = to;
  }
}

bool Lowering::covers(const TensorBox& x, const std::optional<TensorRef>& view) {
  return view && view->offset.is_constant(0) && is_contiguous(view->sizes, view->strides) &&
         numel(view->sizes) == numel(graph_[std::get<BufferId>(x.box_->data)].sizes);
}

void Lowering::require_given(const TensorBox& out, DType dtype, const std::vector<Expr>& sizes) {
  if (out.sizes() == sizes && out.dtype() == dtype) return;
  user_error(errors::kInPlaceMemory, {.node = origin_},
             "the output tensor differs from the result in type or shape",
             "give it the type and shape of the collective's result");
}

void Lowering::write_into(const TensorBox& out, const TensorBox& value) {
  const BufferId id = realize_box(*out.box_);
  freeze(id);
  realize_readers(root_storage(graph_, id));
  Loops loops;
  loops.sizes = out.sizes();
  loops.body = copy_body(value);
  loops.store_index = simplify(flat_index(out.map_, strides_of(graph_, id)), out.sizes());
  const std::string name = graph_[id].name + ".written";
  const BufferId written = graph_.add_mutation(id, name);
  emit({name, std::move(loops), {written}, {origin_}, std::nullopt});
  rename(id, written);
}

// Where a collective may write for x. If that is x's own memory, x gets its new name.
Lowering::Target Lowering::target_of(const TensorBox& x, GroupId group, CommBufferKind kind, bool reads) {
  BufferId id = realize_box(*x.box_);
  if (!freeze_permuted(x)) freeze(id);
  realize_readers(root_storage(graph_, id));
  const std::optional<TensorRef> view = strided(x);
  const CommBufferReason answer = can_be_comm_buffer(graph_, id, view, group, kind, true);
  Target target;
  if (covers(x, view)) {
    target.view = *view;
    if (!in_place(answer)) {  // a copy becomes the value
      const TensorBox value = from_buffer(id);
      const BufferId copied = reads ? std::get<BufferId>(copy(value).box_->data)
                                    : graph_.add_owned(graph_[id].name, graph_[id].dtype, graph_[id].sizes);
      rename(id, copied);
      target.view = {copied, 0, x.sizes(), contiguous_strides(x.sizes())};
    }
    make_comm_buffer(graph_, target.view.buffer, group, kind);
    return target;
  }
  // Only a part: memory that must not change is copied first.
  const StorageKind storage = graph_[root_storage(graph_, id)].kind;
  if (storage == StorageKind::input || storage == StorageKind::constant || storage == StorageKind::output) {
    const TensorBox own = copy(from_buffer(id));
    rename(id, std::get<BufferId>(own.box_->data));
  }
  target.write_back = true;
  target.view.buffer = reads ? std::get<BufferId>(copy(x).box_->data)
                             : graph_.add_owned(graph_[id].name, x.dtype(), x.sizes());
  target.view = whole(graph_, target.view.buffer);
  make_comm_buffer(graph_, target.view.buffer, group, kind);
  return target;
}

void Lowering::run_into(CollectiveKernel kernel, const std::vector<TensorBox>& outs,
                        const std::vector<Target>& targets) {
  Started started;
  started.name = origin_.empty() ? std::string(to_string(kernel.kind)) : origin_;
  started.blocking = kernel.blocking;
  for (const Target& t : targets) {
    started.outputs.push_back(graph_.add_mutation(t.view.buffer, started.name));
    kernel.outputs.push_back(t.view);
    kernel.outputs.back().buffer = started.outputs.back();
  }
  started.op = emit({started.name + (kernel.blocking ? "" : ".start"),
                     std::move(kernel),
                     started.outputs,
                     {origin_},
                     std::nullopt});
  const std::vector<TensorBox> results = wait_for(started);
  release(started);
  for (std::size_t k = 0; k < outs.size(); ++k) {
    if (targets[k].write_back) {
      write_into(outs[k], results[k]);
    } else {
      rename(targets[k].view.buffer, std::get<BufferId>(results[k].box_->data));
    }
  }
}

TensorBox Lowering::empty(const std::string& name, DType dtype, std::vector<Expr> sizes) {
  return from_buffer(graph_.add_owned(name, dtype, std::move(sizes)));
}

void Lowering::all_reduce_(const std::vector<TensorBox>& xs, GroupId group, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_reduce;
  k.group = group;
  k.reduce = kind;
  std::vector<TensorRef> changed;
  for (const TensorBox& x : xs) {
    const BufferId id = realize_box(*x.box_);
    const TensorRef ref = strided(x).value_or(whole(graph_, id));
    for (const TensorRef& other : changed) {
      if (!may_overlap(graph_, other, ref)) continue;
      user_error(errors::kInPlaceMemory, {.node = origin_},
                 "two operands of an in-place collective share memory");
    }
    changed.push_back(ref);
  }
  std::vector<Target> targets;
  for (const TensorBox& x : xs) {
    targets.push_back(target_of(x, group, CommBufferKind::symmetric, true));
    k.inputs.push_back(targets.back().view);
  }
  run_into(std::move(k), xs, targets);
}

void Lowering::all_reduce_(const TensorBox& x, GroupId group, ReduceKind kind) {
  all_reduce_(std::vector<TensorBox>{x}, group, kind);
}

void Lowering::broadcast_(const TensorBox& x, GroupId group, int root) {
  CollectiveKernel k;
  k.kind = CollectiveKind::broadcast;
  k.group = group;
  k.root = root;
  const Target target = target_of(x, group, CommBufferKind::symmetric, true);
  k.inputs.push_back(target.view);
  run_into(std::move(k), {x}, {target});
}

// `out` receives the collective's result for x, slab after slab.
void Lowering::collective_into(CollectiveKernel kernel, TensorBox x, const TensorBox& out) {
  realize_box(*x.box_);
  realize_box(*out.box_);
  const auto storage = [&](const TensorBox& t) {
    return root_storage(graph_, std::get<BufferId>(t.box_->data));
  };
  if (storage(x) == storage(out)) x = copy(x);
  // The target comes first: it may need another buffer, or realize readers of the old one.
  const Target target = target_of(out, kernel.group, CommBufferKind::registered, false);
  kernel.inputs.push_back(comm_input(x, kernel.group));
  run_into(std::move(kernel), {out}, {target});
}

void Lowering::all_gather_into(const TensorBox& x, GroupId group, int axis, const TensorBox& out) {
  std::vector<Expr> sizes = x.sizes();
  const auto a = static_cast<std::size_t>(axis);
  sizes[a] = sizes[a] * Expr(graph_[group].size());
  require_given(out, x.dtype(), sizes);
  if (axis != 0) return write_into(out, all_gather(x, group, axis));
  CollectiveKernel k;
  k.kind = CollectiveKind::all_gather;
  k.group = group;
  collective_into(std::move(k), x, out);
}

void Lowering::reduce_scatter_into(const TensorBox& x, GroupId group, int axis, ReduceKind kind,
                                   const TensorBox& out) {
  const auto n = graph_[group].size();
  const TensorBox slabs = slabs_first(x, axis, n);
  require_given(out, x.dtype(), {slabs.sizes().begin() + 1, slabs.sizes().end()});
  CollectiveKernel k;
  k.kind = CollectiveKind::reduce_scatter;
  k.group = group;
  k.reduce = kind;
  collective_into(std::move(k), axis == 0 ? x : slabs, out);
}

}  // namespace braid::ir
