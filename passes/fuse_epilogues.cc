#include "passes/fuse_epilogues.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "passes/compact.h"
#include "passes/fusion_graph.h"
#include "passes/reshape_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

// For each storage, the operations that touch it.
IdVector<StorageId, std::vector<OpId>> touchers(const Schedule& schedule) {
  IdVector<StorageId, std::vector<OpId>> out(schedule.graph.storages.size());
  for (OpId op : execution_order(schedule)) {
    for (const Access& a : effects(schedule.graph, op).accesses) {
      std::vector<OpId>& list = out[a.region.storage];
      if (list.empty() || list.back() != op) list.push_back(op);
    }
  }
  return out;
}

class Fuser {
 public:
  Fuser(Schedule& schedule, bool keep_overlap)
      : schedule_(schedule),
        graph_(schedule.graph),
        clusters_(schedule, keep_overlap),
        touchers_(touchers(schedule)) {
    is_output_.assign(graph_.storages.size(), false);
    for (const GraphOutput& o : graph_.outputs) {
      const StorageId s = root_storage(graph_, o.buffer);
      if (s.valid()) is_output_[s] = true;
    }
  }

  bool run() {
    bool changed = false;
    for (OpId op : execution_order(schedule_)) {
      if (as_product(graph_[op].kernel) == nullptr) continue;
      const int cluster = clusters_.cluster_of(op);
      if (at(schedule_.nodes, cluster).kind != ScheduleNode::Kind::single) continue;
      while (fuse_reader(op, cluster)) changed = true;
    }
    if (!changed) return false;
    schedule_.nodes = clusters_.nodes(schedule_);
    schedule_.plan.reset();
    compact(schedule_);
    return true;
  }

 private:
  Schedule& schedule_;
  Graph& graph_;
  FusionGraph clusters_;
  IdVector<StorageId, std::vector<OpId>> touchers_;
  IdVector<StorageId, bool> is_output_;

  // The only operation besides the product that touches its result.
  std::optional<OpId> only_reader(OpId product) const {
    const StorageId s = root_storage(graph_, graph_[product].outputs[0]);
    if (!s.valid() || graph_[s].kind != StorageKind::activation || is_output_[s]) {
      return std::nullopt;
    }
    const std::vector<OpId>& all = touchers_[s];
    if (all.size() != 2 || all[0] != product) return std::nullopt;
    return all[1];
  }

  bool fuse_reader(OpId product, int cluster) {
    const std::optional<OpId> reader = only_reader(product);
    if (!reader) return false;
    const auto* loops = graph_[*reader].as<Loops>();
    if (loops == nullptr || loops->is_reduction() || graph_[*reader].outputs.size() != 1) return false;
    const int reader_cluster = clusters_.cluster_of(*reader);
    if (at(schedule_.nodes, reader_cluster).kind != ScheduleNode::Kind::single) return false;
    std::optional<Fused> fused =
        with_epilogue(*as_product(graph_[product].kernel), *loops, graph_[*reader].outputs[0]);
    if (!fused) return false;
    const std::optional<double> position = clusters_.joint_position(cluster, reader_cluster);
    if (!position) return false;
    clusters_.merge(cluster, reader_cluster, *position, std::vector<OpId>{product});
    Operation& op = graph_[product];
    Operation& gone = graph_[*reader];
    Product& kernel = *as_product(op.kernel);
    kernel.out = std::move(fused->out);
    kernel.epilogue = std::move(fused->epilogue);
    kernel.post_ops.clear();
    op.outputs = std::move(gone.outputs);
    gone.outputs.clear();
    for (BufferId b : op.outputs) graph_[b].producer = product;
    for (std::string& origin : gone.origins) {
      if (std::find(op.origins.begin(), op.origins.end(), origin) == op.origins.end())
        op.origins.push_back(origin);
    }
    op.cost.reset();
    std::vector<OpId>& list = touchers_[root_storage(graph_, op.outputs[0])];
    std::replace(list.begin(), list.end(), *reader, product);
    return true;
  }

  // The dimensions of the result in the order of memory: a convolution has the channels last in `out`, but often not in
  // memory.
  static std::vector<std::size_t> memory_order(const TensorRef& out) {
    std::vector<std::size_t> order(out.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return !(out.strides[a] == out.strides[b]) && provably_less(out.strides[b], out.strides[a]);
    });
    return order;
  }

  // The indices of a loop over the result's elements, in the order of memory or in that of `out`, over those of `out`.
  std::optional<std::vector<Expr>> indices_of(const Loops& loops, const TensorRef& out) const {
    if (auto same = reindex(loops.sizes, out.sizes, *graph_.pool)) return same;
    const std::vector<std::size_t> order = memory_order(out);
    std::vector<Expr> sizes, symbols;
    for (std::size_t d : order) {
      sizes.push_back(out.sizes[d]);
      symbols.push_back(graph_.pool->index(d));
    }
    std::optional<std::vector<Expr>> indices = reindex(loops.sizes, sizes, *graph_.pool);
    if (indices) {
      for (Expr& index : *indices) index = substitute_indices(index, symbols);
    }
    return indices;
  }

  struct Fused {
    TensorRef out;
    LoopBody epilogue;
  };
  // The product with the loop as the rest of its epilogue.
  std::optional<Fused> with_epilogue(const Product& product, const Loops& loops, BufferId target) const {
    const std::vector<Expr>& sizes = product.out.sizes;
    const auto indices = indices_of(loops, product.out);
    if (!indices) return std::nullopt;
    const auto at = [&](Expr e) { return simplify(substitute_indices(e, *indices), sizes); };
    std::optional<TensorRef> out = strided_view(graph_, target, at(loops.store_index), sizes);
    if (!out) return std::nullopt;
    if (may_overlap(graph_, *out, product.a) || may_overlap(graph_, *out, product.b)) return std::nullopt;

    const BufferId result = product.out.buffer;
    const StorageId memory = root_storage(graph_, result);
    if (root_storage(graph_, target) == memory) return std::nullopt;
    const MemoryRegion written = region(graph_, result);
    const Expr own = simplify(element_of(graph_, product.out), sizes);
    BodyBuilder body(*graph_.pool);
    std::vector<Expr> same;
    for (std::size_t k = 0; k < sizes.size(); ++k) same.push_back(graph_.pool->index(k));
    const ValueId before = product.epilogue ? body.inline_body(*product.epilogue, same)
                                            : body.acc(accumulator_of(graph_[product.a.buffer].dtype));
    const ValueId value = body.cast(before, graph_[result].dtype);
    IdVector<ValueId, ValueId> map(loops.body.instrs.size());
    for (const ValueId k : map.ids()) {
      Instr instr = in_terms_of(
          loops.body[k], *graph_.pool, [&](ValueId v) { return map[v]; }, *indices);
      instr.index = simplify(instr.index, sizes);
      if (instr.code == OpCode::load && root_storage(graph_, instr.buffer) == memory) {
        const std::int64_t item = size_of(graph_[result].dtype);
        const auto shift = divide_exactly(region(graph_, instr.buffer).offset - written.offset, item);
        if (graph_[instr.buffer].dtype != graph_[result].dtype || !shift) return std::nullopt;
        if (!(simplify(instr.index + *shift, sizes) == own)) return std::nullopt;
        map[k] = value;
        if (!instr.operands.empty()) {
          map[k] = body.where(instr.operands[0], value, body.constant_of(instr.dtype, 0));
        }
        continue;
      }
      if (instr.code == OpCode::load && may_overlap(graph_, whole(graph_, instr.buffer), *out))
        return std::nullopt;
      map[k] = body.add(std::move(instr));
    }
    const ValueId last = map[loops.body.result];
    return Fused{std::move(*out), body.finish(body.cast(last, graph_[target].dtype))};
  }
};

}  // namespace

bool FuseEpilogues::run(Schedule& schedule) { return Fuser(schedule, keep_overlap).run(); }

}  // namespace braid::passes
