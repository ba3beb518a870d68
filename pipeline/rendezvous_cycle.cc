#include <algorithm>

#include "analysis/check/event_graph.h"
#include "ir/error.h"
#include "pipeline/rendezvous.h"

namespace braid::pipeline {
namespace {

// Nodes are ranks at their positions, then fronts of queues. Each waits for another one, so following them
// ends in a cycle.
class WaitGraph {
 public:
  WaitGraph(const Schedule& s, const ChannelLayout& layout, ChannelPolicy policy, const Rendezvous& stuck)
      : s_(s),
        layout_(layout),
        policy_(policy),
        stuck_(stuck),
        nodes_(s.rows.size() + static_cast<std::size_t>(layout.queues())) {
    for (int rank = 0; rank < s.ranks(); ++rank) add_rank(rank);
    if (policy.buffered > 0) find_unreceived();
    for (int queue = 0; queue < layout.queues(); ++queue) add_queue(queue);
    place_fronts();
  }

  std::vector<BlockedAction> shortest_cycle() {
    check::EventGraph graph;
    for (std::size_t n = 0; n < nodes_.size(); ++n) graph.add_event();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (const Wait& w : nodes_[n].waits) graph.add_edge(static_cast<int>(n), static_cast<int>(w.for_node));
    }
    const std::vector<int> cycle = graph.shortest_cycle(graph.size());
    ir::internal_check(!cycle.empty(), "a schedule that cannot end has no cycle");
    std::vector<BlockedAction> out;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const auto next = static_cast<std::size_t>(cycle[(i + 1) % cycle.size()]);
      for (const Wait& w : nodes_[static_cast<std::size_t>(cycle[i])].waits) {
        if (w.for_node != next) continue;
        out.push_back({w.at, w.needs});
        break;
      }
    }
    return out;
  }

 private:
  struct Wait {
    PlacedAction at;
    Action needs;
    std::size_t for_node;
  };
  struct Node {
    std::vector<Wait> waits;
  };

  bool posted(Action t) const {
    // Where the rank stands decides: what it needs has been posted when it stands before that rank's
    // position.
    return position_of(t) < stuck_.position(rank_of(t));
  }
  int rank_of(Action t) const { return s_.rank_of_stage[static_cast<std::size_t>(t.stage)]; }
  std::size_t position_of(Action t) const {
    const Row& row = s_.rows[static_cast<std::size_t>(rank_of(t))];
    return static_cast<std::size_t>(std::ranges::find(row, t) - row.begin());
  }
  // What holds up a transfer that is not at the front of its queue, or is not posted.
  std::size_t holder(Action t) const {
    return posted(t) ? s_.rows.size() + static_cast<std::size_t>(layout_.queue_of(t))
                     : static_cast<std::size_t>(rank_of(t));
  }

  void add_rank(int rank) {
    const Row& row = s_.rows[static_cast<std::size_t>(rank)];
    const std::size_t p = stuck_.position(rank);
    if (p >= row.size()) return;
    for (const Action a : members(row, p)) {
      const Action t = awaited_transfer(s_, a);
      if (t.kind == ActionKind::idle || stuck_.complete(t)) continue;
      nodes_[static_cast<std::size_t>(rank)].waits.push_back({{rank, p, a}, t, holder(t)});
    }
  }

  void add_queue(int queue) {
    for (const Action t : stuck_.front(queue)) {
      Action needs = counterpart(t);
      if (policy_.buffered > 0 && is_send(t.kind)) {
        needs = unreceived_[static_cast<std::size_t>(layout_.connection_of(t))];
        if (needs.kind == ActionKind::idle) continue;
      }
      nodes_[s_.rows.size() + static_cast<std::size_t>(queue)].waits.push_back(
          {{rank_of(t), 0, t}, needs, holder(needs)});
    }
  }

  // The first RECV of each connection that is not through: it frees the buffer.
  void find_unreceived() {
    unreceived_.resize(static_cast<std::size_t>(layout_.connections()));
    for (const Row& row : s_.rows)
      for (const Action t : row) {
        if (!is_recv(t.kind) || stuck_.through(t)) continue;
        Action& first = unreceived_[static_cast<std::size_t>(layout_.connection_of(t))];
        if (first.kind == ActionKind::idle) first = t;
      }
  }

  // Positions of the cells of the transfers at the fronts, in one go.
  void place_fronts() {
    for (std::size_t n = s_.rows.size(); n < nodes_.size(); ++n)
      for (Wait& w : nodes_[n].waits) {
        const Row& row = s_.rows[static_cast<std::size_t>(w.at.rank)];
        const std::size_t at = position_of(w.at.action);
        std::size_t p = 0;
        while (p + cell_size(row, p) <= at) p += cell_size(row, p);
        w.at.position = p;
      }
  }

  const Schedule& s_;
  const ChannelLayout& layout_;
  const ChannelPolicy policy_;
  const Rendezvous& stuck_;
  std::vector<Node> nodes_;
  std::vector<Action> unreceived_;  // per connection
};

}  // namespace

std::vector<BlockedAction> shortest_cycle(const Schedule& schedule, const ChannelLayout& layout,
                                          ChannelPolicy policy, const Rendezvous& stuck) {
  return WaitGraph(schedule, layout, policy, stuck).shortest_cycle();
}

}  // namespace braid::pipeline
