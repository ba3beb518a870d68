// The best orders of a few consecutive nodes that a beam search finds, from the state before them and from
// what comes after them.
//
// A partial order is judged by the shortest rest that it allows: the computations of the window that are left
// and all behind them; the longest chain that it has not begun; what the channels still have to do. The rest
// behind the window is that of the present order, so the estimate of a complete window is exact but for
// contention.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/live_bytes.h"
#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "analysis/tails.h"

namespace braid::passes {

class WindowSearch {
 public:
  // At most 32 nodes; `before` is the state in front of them.
  WindowSearch(const analysis::Problem& problem, const analysis::Simulator& before,
               std::span<const int> nodes);
  // `stream`: the rest of the compute stream behind the window; `next_on`: that of a channel, from its next
  // start on.
  void set_rest(const analysis::OrderTails& tails, std::int64_t stream,
                const std::function<std::int64_t(int)>& next_on);
  // `first`, `last`: positions of the first and last touch of each tenant; the window begins at position
  // `lo`.
  void set_memory(const analysis::LiveBytes& live, int lo, const analysis::SpaceBytes& alive,
                  const analysis::SpaceBytes& peaks, std::int64_t limit, std::span<const int> first,
                  std::span<const int> last);
  // Follows `beam` partial orders at a time; answers the number of appends.
  std::int64_t run(int beam);
  // Complete orders, the best first; a few at most. Empty if none keeps the limit.
  const std::vector<std::vector<int>>& results() const { return results_; }

 private:
  struct State {
    std::uint32_t mask = 0;
    std::int64_t estimate = 0;
    std::int64_t slack = 0;  // second criterion: the time that was lost
    int node = -1, parent = -1;
    analysis::Simulator simulator;
    analysis::SpaceBytes alive{}, peak{};
  };
  struct Trace {
    int node, parent;
  };
  struct Tenant {
    std::int64_t bytes;
    int space;
    std::uint32_t touchers;
    bool before, after;
  };

  bool append(State& state, int local) const;
  void judge(State& state) const;
  std::int64_t contention(const State& state) const;
  bool is_free(const State& state, int local) const;

  const analysis::Problem& p_;
  const analysis::Simulator& before_;
  std::span<const int> nodes_;
  std::vector<std::uint32_t> needs_;
  std::vector<std::int64_t> work_, tail_;
  std::vector<int> by_tail_;        // longest first
  std::vector<int> local_of_wait_;  // per local start: of its wait, -1: not in the window
  std::int64_t stream_ = 0;
  const analysis::OrderTails* tails_ = nullptr;
  std::vector<std::int64_t> channel_rest_;  // behind the window
  struct Start {
    int local, channel;
    std::int64_t time;
    analysis::Permille slowdown;
  };
  std::vector<Start> starts_;
  std::vector<std::pair<int, int>> waits_;    // collective, local node
  std::vector<analysis::Permille> slowdown_;  // per local node: of its computations
  std::vector<int> by_slowdown_;              // those that compute, least first
  bool contended_ = false;
  std::vector<Tenant> tenants_;
  std::vector<std::vector<int>> touches_;
  analysis::SpaceBytes alive_{}, peaks_{};
  std::int64_t limit_ = INT64_MAX;
  std::vector<std::vector<int>> results_;
};

}  // namespace braid::passes
