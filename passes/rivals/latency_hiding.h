// A rival to compare with: list scheduling from the end, as XLA's latency-hiding scheduler does it.
//
// Documented behaviour (xla/service/latency_hiding_scheduler.h) as implemented here:
//   * bottom-up: a node is ready when all its users are placed; time runs backwards from the end
//   * a wait opens a window that its start closes; a start is covered once the collective's latency has
//     passed since the window opened
//   * at most `in_flight` windows of one kind of collective are open at a time
//   * among the ready nodes, these rules decide in turn:
//       1. memory      over the limit: the one that leaves the fewest bytes alive
//       2. covered     a start whose latency has passed (it frees its resource, and its inputs become ready)
//       3. window      a wait whose resource is free, the deepest collective chain first
//       4. backed up   the start of a resource for which a wait is ready, although it stalls: the one that is
//                      covered soonest
//       5. depth       compute on the deepest chain of collectives, then on the longest path
//       6. stall       an uncovered start, the one that is covered soonest; time passes idle until then
//       7. input       later nodes of the input first
//   * XLA itself has rule 4 after compute, which misses uniform layers whose collectives are longer than
//     their compute. With rule 4 before compute, gradients that are only read at the end all stall there.
//     Both orders are built and the one with the shorter simulated time is kept: a stronger rival than its
//     source
//   * if the plan exceeds the cap, the scheduler runs again with a smaller memory limit (up to `reruns`
//     times), and then falls back to the input order
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct Reordering;

struct LatencyHiding {
  static constexpr std::string_view kName = "latency_hiding";
  static constexpr std::string_view kDescription =
      "rival: list scheduling from the end, as XLA's latency-hiding scheduler";
  static constexpr bool kMayReorderCollectives = true;

  std::int64_t in_flight = 1;
  std::int64_t reruns = 5;

  static std::vector<PassOption<LatencyHiding>> options() {
    return {{"in_flight", &LatencyHiding::in_flight, "maximum collectives of one kind in flight"},
            {"reruns", &LatencyHiding::reruns, "how often the memory limit is reduced"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);

 private:
  analysis::Order order_of(const Reordering& r, bool stall) const;
};

}  // namespace braid::passes
