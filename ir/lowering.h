// Lazy lowering: from tensor operations to loops over buffers.
//
// A TensorBox is a view of a StorageBox, and a StorageBox is either a deferred computation (Pointwise,
// Reduction: a loop body) or a buffer. Elementwise operations on boxes build larger bodies. A body becomes a
// kernel ("is realized") only if it needs memory: it is an operand of a GEMM or a collective, a graph output,
// the source of a reduction's result, or so expensive and so often used that computing it once is better.
//
//   box = lowering.pointwise({x, bias}, add)        no kernel yet
//   box = lowering.pointwise({box}, tanh)           still none: one body  tanh(x[i0] + bias[i0])
//   lowering.output("y", box)                       one loop
//
// Views (permute, reshape, slice, expand) are index maps; they never copy by themselves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/error.h"
#include "ir/graph.h"

namespace braid::ir {

// The contents of a StorageBox before it has memory. Bodies are over indices i0.. of `sizes`.
struct Pointwise {
  std::vector<Expr> sizes;
  LoopBody body;
};
struct Reduction {  // over the last `reduced` of `sizes`; the box has the sizes before them
  std::vector<Expr> sizes;
  int reduced = 0;
  ReduceKind reduce = ReduceKind::sum;
  LoopBody body;
};

struct StorageBox {
  std::variant<Pointwise, Reduction, BufferId> data;
  std::string name;                     // requested name of the buffer, once there is one
  std::vector<std::string> origins;     // ONNX nodes
  std::size_t depth = 0;                // of the region that computes it; 0: none
  std::shared_ptr<StorageBox> widened;  // the same elements in memory, for kernels that need an operand there

  bool realized() const { return std::holds_alternative<BufferId>(data); }
};

class TensorBox {
 public:
  TensorBox() = default;

  DType dtype() const { return dtype_; }
  const std::vector<Expr>& sizes() const { return sizes_; }
  std::size_t rank() const { return sizes_.size(); }
  bool valid() const { return box_ != nullptr; }

 private:
  friend class Lowering;
  std::shared_ptr<StorageBox> box_;
  DType dtype_ = DType::f32;
  std::vector<Expr> sizes_;
  std::vector<Expr> map_;  // index into the box per dimension of the box, over i0.. of this view
};

// Thrown if two sizes must be equal, or one at most the other, but are so for no values of the dimensions
// (BR0305).
class SizesNeverFit final : public UserError {
 public:
  SizesNeverFit(std::string node, Expr a, Expr b, std::string_view relation);
  bool are_numbers() const { return numbers_; }  // both, whatever the dimensions are

 private:
  bool numbers_;
};

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  ExprPool& pool() { return *graph_.pool; }

  // Sets the ONNX node being lowered: it is recorded in everything created from here on and in error
  // messages.
  void set_origin(std::string node) { origin_ = std::move(node); }

  // ---- leaves
  TensorBox input(const std::string& name, DType dtype, std::vector<Expr> sizes);
  TensorBox constant(const std::string& name, DType dtype, std::vector<std::int64_t> sizes,
                     ConstantData data);
  TensorBox scalar(DType dtype, double value);                         // rank 0, inlined
  TensorBox full(std::vector<Expr> sizes, DType dtype, double value);  // inlined
  TensorBox from_buffer(BufferId buffer);

  // ---- elementwise
  using PointwiseFn = std::function<ValueId(BodyBuilder&, std::span<const ValueId>)>;
  // Broadcasts as ONNX does; adds a guard where sizes are not provably equal. The result has the dtype that
  // `compute` yields.
  TensorBox pointwise(std::vector<TensorBox> inputs, const PointwiseFn& compute);
  // The general form: the value at an index, reading tensors with `load`.
  using GenerateFn = std::function<ValueId(BodyBuilder&, std::span<const Expr> index)>;
  TensorBox generate(std::vector<Expr> sizes, const GenerateFn& compute);
  // For use inside of `generate` and `reduce`: tensor[index].
  ValueId load(BodyBuilder& body, const TensorBox& tensor, std::span<const Expr> index,
               std::optional<ValueId> mask = std::nullopt);
  TensorBox cast(TensorBox x, DType dtype);

  // ---- reductions over the given axes (distinct, in [0, rank)); `keepdims` leaves them with size 1
  TensorBox reduce(TensorBox x, ReduceKind kind, std::vector<int> axes, bool keepdims);

  // ---- views
  TensorBox permute(TensorBox x, std::vector<int> order);  // result dim k is x's dim order[k]
  // ONNX Expand: the broadcast of x's sizes and `sizes`.
  TensorBox expand(TensorBox x, std::vector<Expr> sizes);
  // Requires the same number of elements; adds a guard if that is not provable.
  TensorBox reshape(TensorBox x, std::vector<Expr> sizes);
  // Elements start + k*step of an axis for 0 <= k < count; step may be negative.
  TensorBox slice(TensorBox x, int axis, Expr start, Expr count, std::int64_t step = 1);
  TensorBox squeeze(TensorBox x, int axis);
  TensorBox unsqueeze(TensorBox x, int axis);
  // Any index map: result[i0, i1, ...] = x[map].
  TensorBox view(TensorBox x, std::vector<Expr> sizes, std::vector<Expr> map);

  // ---- operations with memory of their own
  // Each part is written into its slice of the result (NonOwningLayout).
  TensorBox concat(std::vector<TensorBox> parts, int axis);
  TensorBox matmul(TensorBox a, TensorBox b);  // numpy's matmul, 1-D operands included
  // The kernels of ir/graph.h, with operands and results in its order of dimensions (channels last). In
  // memory the channels of results come before the spatial dimensions, whose sizes are `spatial`.
  TensorBox convolution(TensorBox a, TensorBox b, std::vector<Window> windows, std::vector<Expr> spatial,
                        bool transposed = false);
  TensorBox pool(PoolKind kind, TensorBox x, std::vector<Window> windows, std::vector<Expr> spatial);
  // A recurrent layer in one direction. Returns y, the last h and, for an lstm, the last c. Operands that are
  // not valid() are absent; `layer` has everything that is not an operand.
  struct RecurrenceOperands {
    TensorBox gates, weights, initial_h, bias, initial_c, peepholes, lengths;
  };
  std::vector<TensorBox> recurrence(Recurrence layer, const RecurrenceOperands& operands);
  // Operands are views of existing memory; a mask has their sizes, or 1 where it repeats. Heads of key and
  // value that repeat (views that expand) are read once. Sets the operands and views of `kernel`.
  struct AttentionViews {
    TensorBox query, key, value, mask, valid_keys, positions;  // the last three may be absent
  };
  TensorBox attention(Attention kernel, AttentionViews operands);
  // Calls a registered extern kernel (ir/extern_registry.h) and returns its results, each with memory of its
  // own. Operands are views of existing memory where the kernel takes any strides, and otherwise row-major.
  struct ExternResult {
    DType dtype;
    std::vector<Expr> sizes;
  };
  std::vector<TensorBox> extern_call(
      const std::string& symbol, const std::vector<TensorBox>& operands,
      const std::vector<ExternResult>& results,
      std::map<std::string, std::variant<std::int64_t, double, std::string>> attributes = {});
  // Allocates a buffer for the box now and returns the same view of it. A box that only widens a narrower
  // tensor (DequantizeLinear) is realized as a copy: later loops that read `x` go on reading the narrow
  // tensor.
  TensorBox realize(TensorBox x);
  // Like realize(), for a tensor that holds the elements of `before` at the same indices, and more. If
  // `before` is a graph input with room to grow (ir/capacity.h), x gets its layout and may come to lie in its
  // memory.
  TensorBox realize_grown(TensorBox x, const TensorBox& before);
  // Names the buffer that x may get (an ONNX value name). The first name stays.
  void set_name(const TensorBox& x, const std::string& name);
  // Realizes x if recomputing it for each of `uses` users costs more than memory (Inductor's mark_reuse). If
  // x is a cheap function of a value that was rounded to a byte, realizes the bytes instead.
  void mark_reuse(const TensorBox& x, int uses);

  // ---- regions: parts of the program that run or not, depending on values that are known only at run time
  // Returns the results of one of two parts. Each part is called once and returns boxes of the same types and
  // sizes as the other (BR0119). Operations that a part creates belong to its region; those of boxes made
  // outside stay outside.
  using Part = std::function<std::vector<TensorBox>()>;
  std::vector<TensorBox> branch(const TensorBox& condition, const Part& if_true, const Part& if_false);
  // The element that one run of a loop adds to one of its results: element `position` (i64 scalar, less than
  // `count`) along `axis` of a tensor with `count` of them.
  struct Joined {
    TensorBox value;  // without the axis
    std::size_t axis = 0;
    Expr count;
    TensorBox position;
  };
  struct Run {
    TensorBox condition;  // of the next run
    std::vector<TensorBox> carried;
    std::vector<Joined> joined;
  };
  // Runs `body` as long as the bool scalar `condition` is true, beginning with `initial`. `body` is called
  // once, with the values carried from run to run. It returns the next condition, the next values, which have
  // the types and sizes of the initial ones (BR0119), and the elements it adds to other results. Returns the
  // values after the last run, and then the joined tensors, whose elements are 0 where no run has written.
  using Body = std::function<Run(const std::vector<TensorBox>& carried)>;
  std::vector<TensorBox> repeat_while(const TensorBox& condition, const std::vector<TensorBox>& initial,
                                      const Body& body);
  // A new dimension within these bounds, whose value for the rest of a step is the i64 scalar. Its name
  // is made unique. Not within a region.
  Expr measure(const std::string& name, const TensorBox& value, Bounds bounds);
  // The regions around what is being lowered.
  std::size_t depth() const { return depth_; }
  // Calls `make` as if outside of all regions: for boxes that depend on nothing, and may be used anywhere.
  TensorBox outside_regions(const std::function<TensorBox()>& make);

  // ---- collectives: functional; started, waited for and released in program order
  // Several tensors at once (coalesced): one start, one wait.
  std::vector<TensorBox> all_reduce(const std::vector<TensorBox>& xs, GroupId group, ReduceKind kind);
  std::vector<TensorBox> all_gather(const std::vector<TensorBox>& xs, GroupId group,
                                    const std::vector<int>& axes);
  std::vector<TensorBox> reduce_scatter(const std::vector<TensorBox>& xs, GroupId group,
                                        const std::vector<int>& axes, ReduceKind kind);
  TensorBox all_reduce(TensorBox x, GroupId group, ReduceKind kind);
  TensorBox all_gather(TensorBox x, GroupId group, int axis);
  TensorBox reduce_scatter(TensorBox x, GroupId group, int axis, ReduceKind kind);
  // Sends equal slabs along `split_axis` to the ranks and concatenates what it receives along `concat_axis`.
  // `blocking`: complete when issued; nothing runs meanwhile.
  TensorBox all_to_all(TensorBox x, GroupId group, int split_axis = 0, int concat_axis = 0,
                       bool blocking = false);
  TensorBox broadcast(TensorBox x, GroupId group, int root);
  void send(TensorBox x, GroupId group, int peer);
  TensorBox recv(DType dtype, std::vector<Expr> sizes, GroupId group, int peer);
  // Each pair is a group [source, target] of ranks. All transfers are started before any wait. Result k is
  // what pair k transferred; it is undefined on all ranks but its target.
  std::vector<TensorBox> batch_send_recv(const TensorBox& x, const std::vector<GroupId>& pairs);

  // ---- collectives that change existing memory. All views of it see the change; what was computed from it
  // before keeps the old value. A part of a buffer is copied and written back. Memory that must not change
  // (graph inputs, constants) is replaced by a copy. BR0580: operands that share memory, or an `out` with
  // another shape or type.
  void all_reduce_(const std::vector<TensorBox>& xs, GroupId group, ReduceKind kind);
  void all_reduce_(const TensorBox& x, GroupId group, ReduceKind kind);
  void broadcast_(const TensorBox& x, GroupId group, int root);
  void all_gather_into(const TensorBox& x, GroupId group, int axis, const TensorBox& out);
  void reduce_scatter_into(const TensorBox& x, GroupId group, int axis, ReduceKind kind,
                           const TensorBox& out);
  // Uninitialised memory, to be written by one of these.
  TensorBox empty(const std::string& name, DType dtype, std::vector<Expr> sizes);
  void write_into(const TensorBox& out, const TensorBox& value);  // of equal sizes

  // ---- the end
  void output(const std::string& name, TensorBox x);
  // Every operation in order of creation. Call once, at the end: layouts still flexible become final.
  std::vector<OpId> order();

  // Requires a == b: adds a guard unless this is provable. A user error if it can never hold.
  void require_equal(Expr a, Expr b);
  // Requires a <= b in the same way.
  void require_at_most(Expr a, Expr b);

 private:
  Graph& graph_;
  std::string origin_;
  // Operations in order of creation: those of the program, then those of each region being lowered, innermost
  // last.
  std::vector<std::vector<OpId>> frames_ = {{}};
  std::size_t depth_ = 0;  // the frame to which operations are added
  // For values that cannot lie in the segment: views of them and their copies in the segment.
  std::map<BufferId, std::vector<std::pair<TensorRef, TensorRef>>> copied_in_;

  void add_guard(Guard guard);
  // Whether no stride is negative, by bounds or by guards: that of rows of n - 2 elements is none if n >= 2.
  bool runs_forwards(const TensorRef& view) const;
  TensorBox box(StorageBox storage, DType dtype);
  BufferId realize_box(StorageBox& box);
  // Realizes a value of the box's body; the box becomes a function of what it loads.
  void realize_bytes(StorageBox& box, ValueId byte);
  BufferId realize_into(StorageBox& box, BufferId target);
  Region region(const std::function<std::vector<BufferId>()>& part);
  // Adds to a tensor made around the region: its memory before and after.
  std::pair<BufferId, BufferId> add_to(const Joined& part, const std::string& name);
  std::vector<BufferId> read_from_outside(const RegionKernel& kernel) const;
  BufferId copy_of(const TensorBox& x, const std::string& name);
  std::optional<BufferId> buffer_of(const TensorBox& x);
  void grow_in_place(BufferId buffer, const TensorBox& before);
  OpId emit(Operation op);
  // True if x is a deferred computation that this view reorders: realizing it would not make x contiguous,
  // and computing it straight into a contiguous copy costs nothing extra.
  bool lazy_and_reordered(const TensorBox& x);
  LoopBody copy_body(const TensorBox& x);
  // A contiguous copy of the view.
  TensorBox copy(const TensorBox& x, StorageKind kind = StorageKind::activation);
  // The memory that an output buffer of a kernel of ours may still be moved to; null for everything else.
  Storage* movable_storage(const TensorBox& x);
  void freeze(BufferId buffer);
  bool freeze_permuted(const TensorBox& x);
  std::optional<TensorRef> strided(const TensorBox& x);
  TensorRef gemm_operand(TensorBox x);
  TensorRef view_operand(TensorBox x);
  TensorBox without_repeated_heads(const TensorBox& x);
  // The view that the producer of a buffer with a flexible layout writes.
  TensorRef& written_view(BufferId buffer);
  TensorRef channels_last(const std::string& name, DType dtype, const Expr& batch, std::vector<Expr> spatial,
                          const Expr& channels);
  TensorRef extern_operand(const TensorBox& x, bool any_strides);
  std::optional<std::vector<Expr>> reshape_map(const TensorBox& x, const std::vector<Expr>& sizes);
  bool cheap_to_index(const TensorBox& x);
  TensorRef comm_input(const TensorBox& x, GroupId group);
  // A started collective, whose outputs may not be read before its wait.
  struct Started {
    OpId op;
    std::vector<BufferId> outputs;
    std::string name;
    bool blocking = false;
  };
  BufferId landing_buffer(const std::string& name, DType dtype, std::vector<Expr> sizes, GroupId group);
  Started start_collective(CollectiveKernel kernel, const std::vector<TensorBox>& xs, DType dtype,
                           const std::vector<std::vector<Expr>>& out_sizes);
  std::vector<TensorBox> wait_for(const Started& started);
  void release(const Started& started);
  std::vector<TensorBox> finish_collective(const Started& started);
  TensorBox collective(CollectiveKernel kernel, const TensorBox& x, DType dtype, std::vector<Expr> out_sizes);
  // lowering_in_place.cc
  struct Target {
    TensorRef view;
    bool write_back = false;  // the view is a copy of a part
  };
  std::vector<std::weak_ptr<StorageBox>> boxes_;  // all boxes that may still be used
  std::size_t tracked_ = 0;
  void track(const std::shared_ptr<StorageBox>& box);
  void realize_readers(StorageId storage);
  void rename(BufferId from, BufferId to);
  bool covers(const TensorBox& x, const std::optional<TensorRef>& view);
  void require_given(const TensorBox& out, DType dtype, const std::vector<Expr>& sizes);
  Target target_of(const TensorBox& x, GroupId group, CommBufferKind kind, bool reads);
  void run_into(CollectiveKernel kernel, const std::vector<TensorBox>& outs,
                const std::vector<Target>& targets);
  void collective_into(CollectiveKernel kernel, TensorBox x, const TensorBox& out);
  TensorBox slabs_first(TensorBox x, int axis, std::int64_t n);
  TensorBox slabs_along(TensorBox all, int axis);
};

}  // namespace braid::ir
