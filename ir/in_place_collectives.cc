#include "ir/in_place_collectives.h"

#include <algorithm>

#include "ir/collective_table.h"
#include "ir/effects.h"

namespace braid::ir {
namespace {

bool runs_in_place(const CollectiveKernel& k) {
  return row_of(k.kind).elementwise() && k.algorithm != Algorithm::one_shot;
}

// The root storage if the operand is all of it; invalid if the operand is a part or outside of the segment.
StorageId whole_storage(const Graph& graph, const TensorRef& ref) {
  const MemoryRegion r = region(graph, ref);
  if (!r.storage.valid()) return {};
  const Storage& s = graph[r.storage];
  const bool whole = s.kind == StorageKind::comm && r.offset.is_constant(0) &&
                     is_contiguous(ref.sizes, ref.strides) &&
                     numel(ref.sizes) * size_of(graph[ref.buffer].dtype) == s.bytes;
  return whole ? r.storage : StorageId{};
}

struct Touch {
  int node;
  bool writes;  // any operation of the node
};

class Search {
 public:
  explicit Search(const Schedule& schedule) : schedule_(schedule), graph_(schedule.graph) {}

  std::vector<InPlaceCollective> run() {
    std::vector<InPlaceCollective> out;
    for (std::size_t node = 0; node < schedule_.nodes.size(); ++node) {
      for (OpId op : ops_of(schedule_.nodes[node])) {
        const auto* k = graph_[op].as<CollectiveKernel>();
        if (k == nullptr || !runs_in_place(*k)) continue;
        for (std::size_t i = 0; i < k->inputs.size(); ++i) {
          const StorageId operand = whole_storage(graph_, k->inputs[i]);
          const StorageId result = whole_storage(graph_, k->outputs[i]);
          if (!operand.valid() || !result.valid() || operand == result) continue;
          if (!(graph_[operand].bytes == graph_[result].bytes)) continue;
          const bool once = std::count_if(k->inputs.begin(), k->inputs.end(), [&](const TensorRef& in) {
                              return root_storage(graph_, in.buffer) == operand;
                            }) == 1;
          if (once && may_share(op, static_cast<int>(node), operand, result))
            out.push_back({op, operand, result, bounds(graph_[operand].bytes).max});
        }
      }
    }
    return out;
  }

 private:
  // Whether the node has only operations of this collective.
  bool is_of(int node, OpId start) const {
    const std::vector<OpId> ops = ops_of(schedule_.nodes[static_cast<std::size_t>(node)]);
    return std::all_of(ops.begin(), ops.end(), [&](OpId op) {
      const auto* wait = graph_[op].as<WaitKernel>();
      const auto* release = graph_[op].as<ReleaseKernel>();
      return op == start || (wait != nullptr && wait->start == start) ||
             (release != nullptr && release->start == start);
    });
  }

  bool may_share(OpId start, int step, StorageId operand, StorageId result) {
    if (touches_.empty()) find_touches();
    if (is_output_[static_cast<std::size_t>(operand.index)] ||
        taken_[static_cast<std::size_t>(operand.index)])
      return false;
    for (const Touch& t : touches_[static_cast<std::size_t>(operand.index)]) {
      if (!is_of(t.node, start) && (!t.writes || t.node >= step)) return false;
    }
    for (const Touch& t : touches_[static_cast<std::size_t>(result.index)]) {
      if (!is_of(t.node, start) && t.writes) return false;  // nothing can be read there before the start
    }
    // A chain of collectives would write what peers of an earlier one may still read.
    taken_[static_cast<std::size_t>(result.index)] = true;
    return true;
  }

  void find_touches() {
    touches_.resize(graph_.storages.size());
    is_output_.resize(graph_.storages.size(), false);
    taken_.resize(graph_.storages.size(), false);
    std::vector<StorageTouch> of_op;
    for (std::size_t node = 0; node < schedule_.nodes.size(); ++node) {
      for (OpId op : ops_of(schedule_.nodes[node])) {
        storages_of(graph_, op, of_op);
        for (const StorageTouch& t : of_op) {
          std::vector<Touch>& all = touches_[static_cast<std::size_t>(t.storage.index)];
          if (all.empty() || all.back().node != static_cast<int>(node))
            all.push_back({static_cast<int>(node), false});
          all.back().writes |= t.writes;
        }
      }
    }
    for (const GraphOutput& o : graph_.outputs) {
      if (const StorageId s = root_storage(graph_, o.buffer); s.valid())
        is_output_[static_cast<std::size_t>(s.index)] = true;
    }
  }

  const Schedule& schedule_;
  const Graph& graph_;
  std::vector<std::vector<Touch>> touches_;  // by root storage
  std::vector<bool> is_output_, taken_;      // taken: has the bytes of an operand
};

}  // namespace

std::vector<InPlaceCollective> in_place_collectives(const Schedule& schedule) {
  return Search(schedule).run();
}

std::map<StorageId, StorageId> shared_places(const Schedule& schedule) {
  std::map<StorageId, StorageId> out;
  const auto& placements = schedule.plan->placements;
  for (const InPlaceCollective& c : in_place_collectives(schedule)) {
    const auto operand = placements.find(c.operand), result = placements.find(c.result);
    if (operand != placements.end() && result != placements.end() && operand->second == result->second)
      out.emplace(c.result, c.operand);
  }
  return out;
}

}  // namespace braid::ir
