#include "passes/merge_loops.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/fused_loops.h"
#include "passes/reshape_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

class LoopMerger {
 public:
  LoopMerger(Graph& graph, std::vector<OpId> ops) : graph_(graph), ops_(std::move(ops)) {}

  bool run() {
    // A dimension of size 1 is dropped by splitting it into no factors.
    bool changed = false;
    const auto fused = analyse_fused(graph_, ops_);
    if (!fused) return false;
    std::size_t outer = fused->outer.size();
    for (std::size_t k = outer; k-- > 0;) {
      if (!loops(ops_[0]).sizes[k].is_constant(1)) continue;
      for (OpId op : ops_) drop(op, k);
      --outer;
      changed = true;
    }
    for (OpId op : ops_) {
      for (std::size_t k = loops(op).kept(); k-- > outer;) {
        if (!loops(op).sizes[k].is_constant(1)) continue;
        drop(op, k);
        changed = true;
      }
    }
    for (std::size_t k = outer; k-- > 1;) {
      if (!std::all_of(ops_.begin(), ops_.end(), [&](OpId op) { return can_merge_dims(loops(op), k - 1); }))
        continue;
      for (OpId op : ops_) merge(op, k - 1);
      --outer;
      changed = true;
    }
    return merge_inner(outer) || changed;
  }

 private:
  Graph& graph_;
  std::vector<OpId> ops_;

  Loops& loops(OpId op) { return *graph_[op].as<Loops>(); }
  void merge(OpId op, std::size_t k) { loops(op) = merge_dims(loops(op), k, *graph_.pool); }
  void drop(OpId op, std::size_t k) {
    Factors factors;
    for (std::size_t d = 0; d <= k; ++d) {
      factors.push_back(d == k ? std::vector<Expr>{} : std::vector<Expr>{loops(op).sizes[d]});
    }
    loops(op) = split_dims(loops(op), factors, *graph_.pool);
  }

  // Code generators walk members of one inner extent together, so these keep the same inner dimensions.
  bool merge_inner(std::size_t outer) {
    bool changed = false;
    std::vector<bool> done(ops_.size(), false);
    for (std::size_t m = 0; m < ops_.size(); ++m) {
      if (done[m]) continue;
      std::vector<OpId> alike;
      const std::vector<Expr> sizes = loops(ops_[m]).sizes;
      for (std::size_t n = m; n < ops_.size(); ++n) {
        if (!(loops(ops_[n]).sizes == sizes)) continue;
        alike.push_back(ops_[n]);
        done[n] = true;
      }
      for (std::size_t k = sizes.size(); k-- > outer + 1;) {
        if (!std::all_of(alike.begin(), alike.end(),
                         [&](OpId op) { return can_merge_dims(loops(op), k - 1); }))
          continue;
        for (OpId op : alike) merge(op, k - 1);
        changed = true;
      }
    }
    return changed;
  }
};

}  // namespace

bool MergeLoops::run(Schedule& schedule) {
  bool changed = false;
  const auto visit = [&](const auto& self, const ScheduleNode& node) -> void {
    if (node.kind == ScheduleNode::Kind::grouped) {
      for (const ScheduleNode& member : node.members) self(self, member);
      return;
    }
    const std::vector<OpId> ops = ops_of(node);
    const bool all_loops = std::all_of(ops.begin(), ops.end(), [&](OpId op) {
      return schedule.graph[op].as<Loops>() != nullptr && schedule.graph[op].outputs.size() == 1;
    });
    if (!ops.empty() && all_loops) changed |= LoopMerger(schedule.graph, ops).run();
  };
  for (const ScheduleNode& node : schedule.nodes) visit(visit, node);
  return changed;
}

}  // namespace braid::passes
