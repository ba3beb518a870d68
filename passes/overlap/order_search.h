// An order of a scheduling problem in little time and within a memory cap.
//
//   1. list scheduling forwards and backwards in time, by several rules (list_scheduler.h)
//   2. with a cap that the shortest of them does not keep: again under a limit of live bytes, which is
//      searched for so that the planned bytes just keep the cap (an order whose plan is too large is never
//      the result)
//   3. local search from the shortest (local_search.h), within the same limit
//   4. without a cap, both from the shortest of all and from the shortest with a twentieth more than the
//      input plans: memory that gains nothing is not spent
//
// A function of its arguments alone; the work is bounded by `budget`, not by time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "analysis/live_bytes.h"
#include "analysis/problem.h"

namespace braid::passes {

struct OrderSearchOptions {
  std::int64_t appends_per_node = 200;  // of the local search
  std::int64_t least_appends = 40000;   // however few nodes there are
  bool quick = false;                   // a few rules of list scheduling and no local search
  std::optional<std::int64_t> cap;      // planned bytes
  analysis::Time bound;                 // no order is shorter
};

// The memory model of the search. Without it, orders need no memory.
struct OrderMemory {
  const analysis::LiveBytes* live = nullptr;
  std::function<std::int64_t(analysis::OrderView)> planned_bytes;
};

struct FoundOrder {
  analysis::Order order;
  analysis::Time makespan;
  std::int64_t planned_bytes = 0;
  bool keeps_cap =
      true;  // false: no order was found that does; `order` is the one with the fewest planned bytes
};
FoundOrder search_order(const analysis::Problem& problem, const OrderMemory& memory,
                        const OrderSearchOptions& options);

}  // namespace braid::passes
