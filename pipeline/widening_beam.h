// Branch and bound as a complete beam search: partial schedules are extended action by action, layer by
// layer; a layer keeps the most promising `width` states. A layer that drops only dominated and bounded
// states is exhaustive, hence a run that never cuts a layer proves its result optimal. Otherwise the width
// grows fourfold and the run is repeated with the better incumbent (complete anytime beam search, Zhang 1998;
// for scheduling Kuroiwa, Beck 2023). Memory holds two layers plus one word per kept state.
//
// Extensions follow Giffler and Thompson 1960. Let c be the action that could end first, at time e, and r its
// rank: branch over the actions that rank r could start before e. An action that is not yet possible becomes
// so at e or later, because some action must end first, so no candidate is missed; and an order that starts
// something else on r at e or later has room for c before it. Moving c forward is harmless if c is I or W
// (memory is released earlier) or the F of r's only stage (it moves past I and W, which only release). On a
// capped rank with several stages, c = F may take memory that another stage's F needs: there an extra branch
// holds c until such an F has run (after which, by the same exchange, it need not be held).
//
// Dominance: take two states with equal counts and holds. If in one of them every rank is free no later and
// everything arrived no later (or before its rank is free), it can copy every completion of the other. Both
// states are in the same layer, so the test is a hash look-up there. Bounds: lower_bounds.h.
#pragma once

#include <cstdint>

#include "pipeline/search_problem.h"
#include "pipeline/search_state.h"

namespace braid::pipeline {

struct BeamOptions {
  std::int64_t node_budget = 0;  // states for which a bound is computed, over all widths
  std::int64_t first_width = 16;
  std::int64_t max_bytes = 512 << 20;  // of two layers: bounds the width
  std::int64_t root_bound = 0;         // a lower bound from the caller
};

struct BeamResult {
  bool improved = false;  // `orders` is better than the incumbent
  Orders orders;
  std::int64_t makespan = 0;     // of the better of the two
  std::int64_t lower_bound = 0;  // for every schedule; equals the makespan if nothing was cut
  bool complete = false;
  std::int64_t nodes = 0;
  std::int64_t width = 0;  // the last one
};

// Searches for orders shorter than `incumbent` (picoseconds; INT64_MAX: none is known).
BeamResult widening_beam(const SearchInstance& in, std::int64_t incumbent, const BeamOptions& options);

}  // namespace braid::pipeline
