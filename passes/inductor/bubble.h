// Segments of an order that move past one neighbour at a time, as far as dependencies and live bytes allow:
// the moves of the third generation (simple_overlap, sink_waits_iterative,
// reorder_communication_preserving_peak_memory).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/live_order.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {

// Positions of the first and last node.
struct Segment {
  analysis::Position first, last;
};

class Bubble {
 public:
  // No position may come to hold more than `live_limit` bytes, unless it did before.
  Bubble(Reordering& r, analysis::LiveOrder& order, std::int64_t live_limit)
      : r_(r), order_(order), live_limit_(live_limit) {}

  // Whether a node of the segment depends on the node before the segment, and whether the node after it
  // depends on one of the segment.
  bool needs_node_before(const Segment& s) const;
  bool is_needed_by_node_behind(const Segment& s) const;
  // Moves the segment before its preceding node, or after its following node. Dependencies must allow it.
  // Returns false, with nothing changed, if the live limit does not.
  bool up(Segment& s);
  bool down(Segment& s);

 private:
  // Swaps position p with its successor, for each p in turn; if one exceeds the limit, none is swapped.
  bool swap_all(const std::vector<analysis::Position>& positions);

  Reordering& r_;
  analysis::LiveOrder& order_;
  std::int64_t live_limit_;
};

// Returns the limit of live bytes for all passes of a run together: the peak before the first of them plus
// the fraction `budget` (0.2: a fifth more), but at most the context's cap.
std::int64_t live_limit(Reordering& r, double budget);

// Returns the order that `decide` finds under `limit`; if its plan exceeds a cap on planned bytes, retries
// with smaller limits. Returns the input order if none keeps the cap. Both limits become caps of the
// reordering.
analysis::Order within_cap(Reordering& r, std::int64_t limit,
                           const std::function<analysis::Order(std::int64_t live_limit)>& decide);

}  // namespace braid::passes
