#include "passes/replace_operations.h"

#include <utility>

#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace ir;
using Replace = std::function<std::optional<std::vector<OpId>>(OpId)>;

class Replacer {
 public:
  Replacer(Graph& graph, const Replace& replace) : graph_(graph), replace_(replace) {}

  bool run(std::vector<ScheduleNode>& nodes) {
    bool changed = false;
    std::vector<ScheduleNode> out;
    for (ScheduleNode& node : nodes) {
      if (node.kind == ScheduleNode::Kind::grouped) {
        changed |= run(node.members);
      } else if (node.kind == ScheduleNode::Kind::single) {
        std::vector<OpId> ops = replaced(node.op, changed);
        ops.pop_back();
        for (OpId op : ops) out.push_back(ScheduleNode::single(op));
      }
      out.push_back(std::move(node));
    }
    nodes = std::move(out);
    return changed;
  }

 private:
  std::vector<OpId> replaced(OpId id, bool& changed) {
    if (graph_[id].as<RegionKernel>() != nullptr) {
      for (std::size_t r = 0; r < graph_[id].as<RegionKernel>()->regions.size(); ++r) {
        std::vector<OpId> ops;
        for (OpId inner : std::vector<OpId>(graph_[id].as<RegionKernel>()->regions[r].ops)) {
          for (OpId op : replaced(inner, changed)) ops.push_back(op);
        }
        graph_[id].as<RegionKernel>()->regions[r].ops = std::move(ops);
      }
      return {id};
    }
    std::optional<std::vector<OpId>> ops = replace_(id);
    if (!ops) return {id};
    internal_check(!ops->empty() && ops->back() == id, "'{}' is not the last of what replaces it",
                   graph_[id].name);
    changed = true;
    return *std::move(ops);
  }

  Graph& graph_;
  const Replace& replace_;
};

}  // namespace

IdVector<OpId, bool> in_regions(const Graph& graph) {
  IdVector<OpId, bool> out(graph.ops.size(), false);
  for (const Operation& op : graph.ops) {
    const auto* kernel = op.as<RegionKernel>();
    if (kernel == nullptr) continue;
    for (const Region& region : kernel->regions) {
      for (OpId inner : region.ops) out[inner] = true;
    }
  }
  return out;
}

bool replace_operations(Schedule& schedule, const Replace& replace) {
  if (!Replacer(schedule.graph, replace).run(schedule.nodes)) return false;
  schedule.plan.reset();
  return true;
}

}  // namespace braid::passes
