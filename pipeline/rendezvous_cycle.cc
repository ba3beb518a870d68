#include <algorithm>

#include "analysis/check/event_graph.h"
#include "ir/error.h"
#include "pipeline/rendezvous.h"

namespace braid::pipeline {
namespace {

// The nodes are the ranks at their positions, then the fronts of the queues. Each waits for another one, so
// following the waits ends in a cycle.
class WaitGraph {
 public:
  WaitGraph(const PipelineSchedule& s, const ChannelLayout& layout, QueuePolicy policy,
            const Rendezvous& stuck)
      : s_(s),
        layout_(layout),
        policy_(policy),
        stuck_(stuck),
        waits_(s.rows.size() + layout.queues().size()) {
    for (const int rank : s.rows.ids()) add_rank(rank);
    if (policy.buffered > 0) find_unreceived();
    for (const QueueId queue : layout.queues()) add_queue(queue);
  }

  std::vector<BlockedAction> shortest_cycle() {
    check::EventGraph graph;
    for (std::size_t n = 0; n < waits_.size(); ++n) graph.add_event();
    for (const int node : waits_.ids())
      for (const Wait& w : waits_[node]) graph.add_edge(node, w.for_node);
    const std::vector<int> cycle = graph.shortest_cycle(graph.size());
    ir::internal_check(!cycle.empty(), "a schedule that cannot complete has no cycle");
    std::vector<BlockedAction> out;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      for (const Wait& w : waits_[cycle[i]]) {
        if (w.for_node != cycle[(i + 1) % cycle.size()]) continue;
        out.push_back({w.at, w.needs});
        break;
      }
    }
    return out;
  }

 private:
  struct Wait {
    RowAction at;
    Action needs;
    int for_node;
  };

  int rank_of(Action t) const { return s_.rank_of_stage[t.stage]; }
  std::size_t position_of(Action t) const {
    const Row& row = s_.rows[rank_of(t)];
    return static_cast<std::size_t>(std::ranges::find(row, t) - row.begin());
  }
  int node_of(QueueId queue) const { return s_.ranks() + queue.index; }
  // Returns the node that holds up an incomplete transfer: its queue, or its rank if that has not posted it.
  int holder(Action t) const {
    const bool posted = position_of(t) < stuck_.position(rank_of(t));
    return posted ? node_of(layout_.queue_of(t)) : rank_of(t);
  }

  void add_rank(int rank) {
    const Row& row = s_.rows[rank];
    const std::size_t p = stuck_.position(rank);
    if (p >= row.size()) return;
    for (const Action a : members(row, p)) {
      const Action t = awaited_transfer(s_, a);
      if (t.kind == ActionKind::idle || stuck_.complete(t)) continue;
      waits_[rank].push_back({{rank, p, a}, t, holder(t)});
    }
  }

  void add_queue(QueueId queue) {
    for (const Action t : stuck_.front(queue)) {
      Action needs = counterpart(t);
      if (policy_.buffered > 0 && is_send(t.kind)) {
        needs = unreceived_[layout_.connection_of(t)];
        if (needs.kind == ActionKind::idle) continue;
      }
      const std::size_t position = cell_begin(s_.rows[rank_of(t)], position_of(t));
      waits_[node_of(queue)].push_back({{rank_of(t), position, t}, needs, holder(needs)});
    }
  }

  // Finds the first RECV of each connection that has not passed: it frees a buffer.
  void find_unreceived() {
    unreceived_.resize(layout_.connections().size());
    for (const Row& row : s_.rows)
      for (const Action t : row) {
        if (!is_recv(t.kind) || stuck_.through(t)) continue;
        Action& first = unreceived_[layout_.connection_of(t)];
        if (first.kind == ActionKind::idle) first = t;
      }
  }

  const PipelineSchedule& s_;
  const ChannelLayout& layout_;
  const QueuePolicy policy_;
  const Rendezvous& stuck_;
  IdVector<int, std::vector<Wait>> waits_;  // of each node
  IdVector<ConnectionId, Action> unreceived_;
};

}  // namespace

std::vector<BlockedAction> shortest_cycle(const PipelineSchedule& schedule, const ChannelLayout& layout,
                                          QueuePolicy policy, const Rendezvous& stuck) {
  return WaitGraph(schedule, layout, policy, stuck).shortest_cycle();
}

}  // namespace braid::pipeline
