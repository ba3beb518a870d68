#include "codegen/legalise.h"

#include <vector>

#include "ir/error.h"

namespace braid::codegen {
namespace {

using namespace ir;

// Element of the operand's buffer at the product's indices.
Expr element(const Graph& graph, const TensorRef& ref) {
  Expr at = ref.offset;
  for (std::size_t d = 0; d < ref.strides.size(); ++d)
    at = at + graph.pool->index(static_cast<int>(d)) * ref.strides[d];
  return at;
}

class Legaliser {
 public:
  Legaliser(Schedule& schedule, const KernelLimits& limits)
      : graph_(schedule.graph), nodes_(schedule.nodes), limits_(limits) {}

  bool run() {
    nodes_ = rewritten(nodes_);
    return changed_;
  }

 private:
  std::vector<ScheduleNode> rewritten(const std::vector<ScheduleNode>& nodes) {
    std::vector<ScheduleNode> out;
    for (const ScheduleNode& node : nodes) {
      switch (node.kind) {
        case ScheduleNode::Kind::single:
          for (OpId op : rewritten(node.op)) out.push_back(ScheduleNode::single(op));
          break;
        case ScheduleNode::Kind::fused:
          if (runs_as_one(node)) {
            out.push_back(node);
          } else {
            out.insert(out.end(), node.members.begin(), node.members.end());
            changed_ = true;
          }
          break;
        case ScheduleNode::Kind::grouped:
          out.push_back(node);
          out.back().members = rewritten(node.members);
          break;
      }
    }
    return out;
  }

  bool runs_as_one(const ScheduleNode& node) const {
    const std::vector<OpId> ops = ops_of(node);
    if (!limits_.one_kernel || ops.size() < 2) return true;
    const std::optional<FusedLoops> fused = analyse_fused(graph_, ops);
    internal_check(fused.has_value(), "legalise: '{}' is no fused node", node.name);
    return limits_.one_kernel(graph_, *fused);
  }

  // The operation, and those that have to follow it.
  std::vector<OpId> rewritten(OpId id) {
    if (graph_[id].as<RegionKernel>() != nullptr) {
      for (std::size_t r = 0; r < graph_[id].as<RegionKernel>()->regions.size(); ++r) {
        const std::vector<OpId> inside = graph_[id].as<RegionKernel>()->regions[r].ops;
        std::vector<OpId> ops;
        for (OpId inner : inside) {
          for (OpId op : rewritten(inner)) ops.push_back(op);
        }
        graph_[id].as<RegionKernel>()->regions[r].ops = std::move(ops);
      }
    } else if (const auto* gemm = graph_[id].as<Gemm>(); gemm != nullptr && gemm->epilogue) {
      if (const std::optional<DType> sum = limits_.separate_sum(graph_, *gemm))
        return {id, split_epilogue(id, *sum)};
    }
    return {id};
  }

  // The product stores its sums; the operation returned makes the result of them.
  OpId split_epilogue(OpId id, DType type) {
    changed_ = true;
    const Gemm gemm = *graph_[id].as<Gemm>();
    const BufferId sums = graph_.add_owned(graph_[gemm.out.buffer].name + ".sum", type, gemm.out.sizes);
    Operation finish{graph_[id].name + ".epilogue", {}, graph_[id].outputs, graph_[id].origins, std::nullopt};
    Loops loops;
    loops.sizes = gemm.out.sizes;
    loops.store_index = element(graph_, gemm.out);
    loops.body = *gemm.epilogue;
    const TensorRef out = whole(graph_, sums);
    for (Instr& instr : loops.body.instrs) {
      if (instr.code != OpCode::acc) continue;
      instr.code = OpCode::load;
      instr.buffer = sums;
      instr.index = element(graph_, out);
    }
    finish.kernel = std::move(loops);
    Operation& product = graph_[id];
    product.kernel = Gemm{gemm.a, gemm.b, out, std::nullopt};
    product.outputs = {sums};
    product.cost.reset();
    graph_[sums].producer = id;
    return graph_.add_op(std::move(finish));
  }

  Graph& graph_;
  std::vector<ScheduleNode>& nodes_;
  const KernelLimits& limits_;
  bool changed_ = false;
};

}  // namespace

bool legalise(Schedule& schedule, const KernelLimits& limits) {
  if (!Legaliser(schedule, limits).run()) return false;
  schedule.plan.reset();
  return true;
}

}  // namespace braid::codegen
