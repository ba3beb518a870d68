#include "passes/fuse_horizontal.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/error.h"
#include "ir/fused_loops.h"
#include "passes/fusion_graph.h"

namespace braid::passes {
namespace {

using namespace ir;

class HorizontalFuser {
 public:
  HorizontalFuser(Schedule& schedule, const FuseHorizontal& options, IdSpan<OpId, const int> region_of_op)
      : schedule_(schedule),
        graph_(schedule.graph),
        options_(options),
        clusters_(schedule, options.keep_overlap, region_of_op) {
    find_prologues();
    for (const ScheduleNode& node : schedule.nodes) {
      fusible_.push_back(is_loops(schedule, node));
      prepares_.emplace_back();
      for (OpId op : fusible_.back() && options_.keep_prologues ? ops_of(node) : std::vector<OpId>{}) {
        if (const StorageId s = root_storage(graph_, graph_[op].outputs[0]); prologue_[s])
          prepares_.back().insert(s);
      }
    }
  }

  bool run() {
    // The readers of each storage in order; each may be fused with the one before it.
    IdVector<StorageId, std::vector<int>> readers(graph_.storages.size());
    for (int c : clusters_.clusters()) {
      if (!fusible_[c]) continue;
      for (StorageId s : buffers(clusters_.ops(c), false)) readers[s].push_back(c);
    }
    bool changed = false;
    for (const std::vector<int>& list : readers) {
      for (std::size_t k = 1; k < list.size(); ++k) {
        int first = clusters_.cluster_of(list[k - 1]), second = clusters_.cluster_of(list[k]);
        if (first == second) continue;
        if (clusters_.position(first) > clusters_.position(second)) std::swap(first, second);
        changed |= fuse(first, second);
      }
    }
    changed |= fuse_small();
    if (!changed) return false;
    schedule_.nodes = clusters_.nodes(schedule_);
    schedule_.plan.reset();
    return true;
  }

 private:
  Schedule& schedule_;
  Graph& graph_;
  const FuseHorizontal& options_;
  FusionGraph clusters_;
  IdVector<StorageId, bool> prologue_;  // storages that a collective reads, and all communication memory
  IdVector<int, bool> fusible_;
  IdVector<int, std::set<StorageId>> prepares_;  // inputs of collectives that a node writes

  void find_prologues() {
    for (const Storage& s : graph_.storages) prologue_.push_back(s.kind == StorageKind::comm);
    for (const Operation& op : graph_.ops) {
      const auto* collective = op.as<CollectiveKernel>();
      if (collective == nullptr) continue;
      for (const TensorRef& in : collective->inputs) prologue_[root_storage(graph_, in.buffer)] = true;
    }
  }

  // Storages that the loops read, and also those that they write.
  std::set<StorageId> buffers(const std::vector<OpId>& ops, bool with_writes) const {
    std::set<StorageId> out;
    for (OpId op : ops) {
      for (const Instr& instr : graph_[op].as<Loops>()->body.instrs) {
        if (instr.code == OpCode::load) out.insert(root_storage(graph_, instr.buffer));
      }
      if (with_writes) out.insert(root_storage(graph_, graph_[op].outputs[0]));
    }
    return out;
  }

  double points(int cluster) const {
    double sum = 0;
    for (OpId op : clusters_.ops(cluster)) {
      const auto& loops = *graph_[op].as<Loops>();
      sum += cheap_iterations(loops.body, loops.sizes);
    }
    return sum;
  }

  // Fuses each small cluster with one of the few small ones before it.
  bool fuse_small() {
    constexpr std::size_t kBefore = 4;
    bool changed = false;
    std::vector<int> before;
    for (const int c : clusters_.clusters()) {
      if (!fusible_[c] || points(c) > static_cast<double>(options_.small_points)) continue;
      bool fused = false;
      for (std::size_t k = 0; k < std::min(before.size(), kBefore) && !fused; ++k) {
        const int first = before[before.size() - 1 - k];
        fused =
            points(first) + points(c) <= static_cast<double>(options_.small_points) && fuse(first, c, true);
      }
      changed |= fused;
      if (!fused) before.push_back(c);
    }
    return changed;
  }

  bool fuse(int first, int second, bool small = false) {
    std::vector<OpId> ops = clusters_.ops(first);
    const std::vector<OpId>& more = clusters_.ops(second);
    if (std::ssize(ops) + std::ssize(more) > options_.max_members) return false;
    if (clusters_.depends_directly(second, first) || prepares_[first] != prepares_[second]) return false;
    const std::optional<double> position = clusters_.joint_position(first, second);
    if (!position) return false;
    if (small) {
      ops.insert(ops.end(), more.begin(), more.end());
      if (!analyse_fused(graph_, ops)) return false;
      clusters_.merge(first, second, *position);
      return true;
    }
    const auto a = analyse_fused(graph_, ops), b = analyse_fused(graph_, more);
    if (!a || !b || !(a->outer == b->outer)) return false;
    ops.insert(ops.end(), more.begin(), more.end());
    if (std::ssize(buffers(ops, true)) > options_.max_buffers) return false;
    const auto both = analyse_fused(graph_, ops);
    if (!both || both->outer.size() != a->outer.size()) return false;
    clusters_.merge(first, second, *position);
    return true;
  }
};

}  // namespace

bool FuseHorizontal::run(Schedule& schedule, IdSpan<OpId, const int> region_of_op) {
  return HorizontalFuser(schedule, *this, region_of_op).run();
}

}  // namespace braid::passes
