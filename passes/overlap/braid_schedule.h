// Orders the nodes for the shortest simulated makespan within a memory cap.
//
//   before   start ag1  wait ag1  mm1  start ag2  wait ag2  mm2  start rs  wait rs  use rs  mm3
//   after    start ag1  wait ag1  start ag2  mm1  wait ag2  mm2  start rs  mm3  wait rs  use rs
//
// Contract
//   1. Dependencies hold. Collectives may change places with each other: all ranks run the same program, so
//      all see them in the same order. Programs with sends and receives, where ranks may differ, keep the
//      order of collectives.
//   2. The simulated makespan never becomes longer, unless the input order exceeds the cap.
//   3. Planned bytes (memory_model.h) stay within the context's cap. If `memory_growth` is not negative, they
//      also stay within the input order's planned bytes plus that many percent. If no order keeps the
//      context's cap: user error 570, which names the step, the bytes and the buffers that are alive.
//   4. A schedule without collectives stays as it is.
//   5. Deterministic: the budget counts simulated nodes, not time.
//   6. With `merge`, collectives of equal kind and group may become one coalesced collective
//      (merge_collectives.h) if that shortens the schedule; those with explicit costs are never merged.
//   7. With `split`, collectives may become several (splitting.h) if that shortens the schedule.
//   8. If no order is as short as the context finds useful, the schedule stays as it is.
//
// How: order_search.h, bucket_search.h, split_search.h. The search builds orders on the simulator's state and
// improves them by moves whose effect is simulated exactly. It stops when it reaches the lower bound
// (bounds.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct BraidSchedule {
  static constexpr std::string_view kName = "braid_schedule";
  static constexpr std::string_view kDescription =
      "orders all nodes for the shortest simulated time within the memory cap";
  static constexpr bool kMayReorderCollectives = true;

  std::int64_t budget = 200;
  double memory_growth = -1;
  bool merge = true;
  bool split = true;

  static std::vector<PassOption<BraidSchedule>> options() {
    return {
        {"budget", &BraidSchedule::budget, "how many nodes the search simulates, per node of the schedule"},
        {"memory_growth", &BraidSchedule::memory_growth,
         "percent by which planned bytes may exceed those of the input order; negative: any"},
        {"merge", &BraidSchedule::merge, "merge collectives if that shortens the schedule"},
        {"split", &BraidSchedule::split, "split collectives if that shortens the schedule"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
