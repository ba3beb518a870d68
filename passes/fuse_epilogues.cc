#include "passes/fuse_epilogues.h"

#include <algorithm>
#include <optional>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/id_vector.h"
#include "passes/compact.h"
#include "passes/fusion_graph.h"
#include "passes/reshape_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

DType accumulator_type(DType operand) {
  if (operand == DType::f64) return DType::f64;
  return is_float(operand) ? DType::f32 : DType::i32;
}

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
      if (graph_[op].as<Gemm>() == nullptr) continue;
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

  // The only operation besides the GEMM that touches its result.
  std::optional<OpId> only_reader(OpId gemm) const {
    const StorageId s = root_storage(graph_, graph_[gemm].outputs[0]);
    if (!s.valid() || graph_[s].kind != StorageKind::activation || is_output_[s]) {
      return std::nullopt;
    }
    const std::vector<OpId>& all = touchers_[s];
    if (all.size() != 2 || all[0] != gemm) return std::nullopt;
    return all[1];
  }

  bool fuse_reader(OpId gemm_op, int cluster) {
    const std::optional<OpId> reader = only_reader(gemm_op);
    if (!reader) return false;
    const auto* loops = graph_[*reader].as<Loops>();
    if (loops == nullptr || loops->is_reduction() || graph_[*reader].outputs.size() != 1) return false;
    const int reader_cluster = clusters_.cluster_of(*reader);
    if (at(schedule_.nodes, reader_cluster).kind != ScheduleNode::Kind::single) return false;
    std::optional<Gemm> fused =
        with_epilogue(*graph_[gemm_op].as<Gemm>(), *loops, graph_[*reader].outputs[0]);
    if (!fused) return false;
    const std::optional<double> position = clusters_.joint_position(cluster, reader_cluster);
    if (!position) return false;
    clusters_.merge(cluster, reader_cluster, *position, std::vector<OpId>{gemm_op});
    Operation& op = graph_[gemm_op];
    Operation& gone = graph_[*reader];
    op.kernel = std::move(*fused);
    op.outputs = std::move(gone.outputs);
    gone.outputs.clear();
    for (BufferId b : op.outputs) graph_[b].producer = gemm_op;
    for (std::string& origin : gone.origins) {
      if (std::find(op.origins.begin(), op.origins.end(), origin) == op.origins.end())
        op.origins.push_back(origin);
    }
    op.cost.reset();
    std::vector<OpId>& list = touchers_[root_storage(graph_, op.outputs[0])];
    std::replace(list.begin(), list.end(), *reader, gemm_op);
    return true;
  }

  // The element of `out` at the GEMM's indices.
  Expr out_index(const TensorRef& out) const {
    Expr e = out.offset;
    for (std::size_t k = 0; k < out.sizes.size(); ++k) {
      if (!out.sizes[k].is_constant(1)) e = e + graph_.pool->index(k) * out.strides[k];
    }
    return simplify(e, out.sizes);
  }

  // `target` as a view whose element at the GEMM's indices is `store`.
  std::optional<TensorRef> view_at(BufferId target, Expr store, const std::vector<Expr>& sizes) const {
    TensorRef ref{target, store, sizes, {}};
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const Expr index = graph_.pool->index(k);
      const std::optional<Expr> stride =
          sizes[k].is_constant(1) ? Expr(std::int64_t{0}) : stride_of(ref.offset, index);
      if (!stride) return std::nullopt;
      ref.strides.push_back(*stride);
      ref.offset = ref.offset - index * *stride;
    }
    bool linear = true;
    const auto check = [&](Expr s) { linear &= s.is_symbol(SymbolKind::dim); };
    for_each_symbol(ref.offset, check);
    for (const Expr& s : ref.strides) for_each_symbol(s, check);
    if (!linear) return std::nullopt;
    return ref;
  }

  std::optional<Gemm> with_epilogue(const Gemm& gemm, const Loops& loops, BufferId target) const {
    const std::vector<Expr>& sizes = gemm.out.sizes;
    const auto indices = reindex(loops.sizes, sizes, *graph_.pool);
    if (!indices) return std::nullopt;
    const auto at = [&](Expr e) { return simplify(substitute_indices(e, *indices), sizes); };
    std::optional<TensorRef> out = view_at(target, at(loops.store_index), sizes);
    if (!out) return std::nullopt;
    if (may_overlap(graph_, *out, gemm.a) || may_overlap(graph_, *out, gemm.b)) return std::nullopt;

    const BufferId result = gemm.out.buffer;
    const StorageId memory = root_storage(graph_, result);
    if (root_storage(graph_, target) == memory) return std::nullopt;
    const MemoryRegion written = region(graph_, result);
    const Expr own = out_index(gemm.out);
    BodyBuilder body(*graph_.pool);
    std::vector<Expr> same;
    for (std::size_t k = 0; k < sizes.size(); ++k) same.push_back(graph_.pool->index(k));
    const ValueId before = gemm.epilogue ? body.inline_body(*gemm.epilogue, same)
                                         : body.acc(accumulator_type(graph_[gemm.a.buffer].dtype));
    const ValueId value = body.cast(before, graph_[result].dtype);
    IdVector<ValueId, ValueId> map(loops.body.instrs.size());
    for (const ValueId k : map.ids()) {
      Instr instr = ir::at(loops.body.instrs, k);
      for (ValueId& v : instr.operands) v = map[v];
      instr.index = simplify(substitute(instr.index,
                                        [&](Expr s) -> std::optional<Expr> {
                                          if (s.is_symbol(SymbolKind::value))
                                            return body.as_index(map[ValueId{s.symbol_number()}]);
                                          if (s.is_symbol(SymbolKind::index))
                                            return ir::at(*indices, s.symbol_number());
                                          return std::nullopt;
                                        }),
                             sizes);
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
    return Gemm{gemm.a, gemm.b, std::move(*out), body.finish(body.cast(last, graph_[target].dtype))};
  }
};

}  // namespace

bool FuseEpilogues::run(Schedule& schedule) { return Fuser(schedule, keep_overlap).run(); }

}  // namespace braid::passes
