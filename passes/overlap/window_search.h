// The best orders of a few consecutive nodes that a beam search finds, from the state before them and from
// what comes after them.
//
// A partial order is judged by the shortest rest that it allows: the remaining computations of the window and
// all after them; the longest chain that it has not begun; what the channels still have to do. The rest after
// the window is that of the present order, so the estimate of a complete window is exact except for
// contention.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/live_order.h"
#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "analysis/tails.h"

namespace braid::passes {

class WindowSearch {
 public:
  // At most 32 nodes; `before` is the simulator's state before them.
  WindowSearch(const analysis::Problem& problem, const analysis::Simulator& before,
               std::span<const analysis::NodeId> nodes);
  // `stream`: the rest of the compute stream after the window; `next_on`: that of a channel, from its next
  // start on.
  void set_rest(const analysis::OrderTails& tails, std::int64_t stream,
                const std::function<std::int64_t(analysis::ChannelId)>& next_on);
  // The window begins at position `lo` of the order. No partial order may raise the sum of the spaces' peaks
  // above `limit`.
  void set_memory(const analysis::LiveOrder& live, analysis::Position lo, std::int64_t limit);
  // Follows `beam` partial orders at a time; answers the number of appends.
  std::int64_t run(int beam);
  // Complete orders, the best first; a few at most. Empty if none keeps the limit.
  const std::vector<std::vector<analysis::NodeId>>& results() const { return results_; }

 private:
  using Local = ir::Id<struct LocalTag>;  // of the nodes of the window
  using Block = ir::Id<struct BlockTag>;  // of the tenants that they touch
  struct State {
    std::uint32_t mask = 0;
    std::int64_t estimate = 0;
    std::int64_t slack = 0;  // second criterion: the time that was lost
    Local node;
    int parent = -1;
    analysis::Simulator simulator;
    analysis::SpaceBytes alive{}, peak{};
  };
  struct Trace {
    Local node;
    int parent;
  };
  struct Tenant {
    std::int64_t bytes;
    std::size_t space;
    std::uint32_t touchers;
    bool before, after;
  };

  static std::uint32_t bit(Local local) { return std::uint32_t{1} << local.index; }
  bool append(State& state, Local local) const;
  void judge(State& state) const;
  std::int64_t contention(const State& state) const;
  bool is_free(const State& state, Local local) const;
  std::uint32_t ready(const State& state) const;
  int select(analysis::IdVector<int, State>& children, int count, int beam, bool last,
             analysis::IdVector<int, State>& level, analysis::IdVector<int, Trace>& trace) const;

  const analysis::Problem& p_;
  const analysis::Simulator& before_;
  analysis::IdSpan<Local, const analysis::NodeId> nodes_;
  analysis::IdVector<Local, std::uint32_t> needs_;
  analysis::IdVector<Local, std::int64_t> work_, tail_;
  std::vector<Local> by_tail_;  // longest first
  std::int64_t stream_ = 0;
  const analysis::OrderTails* tails_ = nullptr;
  analysis::IdVector<analysis::ChannelId, std::int64_t> channel_rest_;  // after the window
  struct Start {
    Local local;
    analysis::ChannelId channel;
    std::int64_t time;
    analysis::Permille slowdown;
  };
  std::vector<Start> starts_;
  std::vector<std::pair<analysis::CollectiveId, Local>> waits_;
  analysis::IdVector<Local, analysis::Permille> slowdown_;  // of its computations
  std::vector<Local> by_slowdown_;                          // those that compute, least first
  bool contended_ = false;
  analysis::IdVector<Block, Tenant> tenants_;
  analysis::IdVector<Local, std::vector<Block>> touches_;
  analysis::SpaceBytes alive_{}, peaks_{};
  std::int64_t limit_ = INT64_MAX;
  std::vector<std::vector<analysis::NodeId>> results_;
};

}  // namespace braid::passes
