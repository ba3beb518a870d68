// Segments of an order that move past their neighbours one at a time, as far as dependencies and live bytes
// allow.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/live_order.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {

// Positions of its first and last node.
struct Segment {
  analysis::Position first, last;
};

class Bubble {
 public:
  // No position may hold more than `live_limit` bytes, unless it did before.
  Bubble(Reordering& r, analysis::LiveOrder& order, std::int64_t live_limit)
      : r_(r), order_(order), live_limit_(live_limit) {}

  // Does a node of the segment depend on the node in front of it; does the node behind it depend on one of
  // its own?
  bool needs_node_before(const Segment& s) const;
  bool is_needed_by_node_behind(const Segment& s) const;
  // Moves the node in front of the segment behind it (behind: in front), which nothing may forbid but memory:
  // then nothing has changed.
  bool up(Segment& s);
  bool down(Segment& s);

 private:
  // Swaps position p with its successor, for each p in turn; all of them or none.
  bool swap_all(const std::vector<analysis::Position>& positions);

  Reordering& r_;
  analysis::LiveOrder& order_;
  std::int64_t live_limit_;
};

// The live bytes that all passes of a run together may reach: the peak that the first of them found, and
// `budget` (0.2: a fifth more). With a cap in the context, no more than that.
std::int64_t live_limit(Reordering& r, double budget);

// The order that `decide` finds under `limit`; with a cap on planned bytes, under smaller limits until the
// plan keeps it. The input order if none does. Both are caps of the reordering.
analysis::Order within_cap(Reordering& r, std::int64_t limit,
                           const std::function<analysis::Order(std::int64_t live_limit)>& decide);

}  // namespace braid::passes
