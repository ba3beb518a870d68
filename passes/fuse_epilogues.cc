#include "passes/fuse_epilogues.h"

#include <algorithm>
#include <optional>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "passes/compact.h"
#include "passes/fusion_graph.h"
#include "passes/product_epilogue.h"

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

class EpilogueFuser {
 public:
  EpilogueFuser(Schedule& schedule, bool keep_overlap)
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
    std::optional<WithEpilogue> fused =
        with_epilogue(graph_, *as_product(graph_[product].kernel), *loops, graph_[*reader].outputs[0]);
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
};

}  // namespace

bool FuseEpilogues::run(Schedule& schedule) { return EpilogueFuser(schedule, keep_overlap).run(); }

}  // namespace braid::passes
