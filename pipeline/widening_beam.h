// Branch and bound as a complete beam search: partial schedules are extended action by action, layer by
// layer; a layer keeps the most promising `width` states. A layer that lost nothing but dominated and bounded
// states is exhaustive, hence a run that never cut a layer proves its result optimal; otherwise the width
// grows fourfold and the run is repeated with the better incumbent (complete anytime beam search, Zhang 1998;
// for scheduling Kuroiwa, Beck 2023). Memory holds two layers plus one word per kept state.
//
// Which extensions: those of Giffler and Thompson 1960. Let c be the action that could end first, at time e,
// r its rank: branch over the actions that rank r could start before e. Whatever is not yet possible becomes
// so at e or later, because some action must end first, so no candidate is missed; and an order that starts
// something else on r at e or later has room for c before it. Moving c forward is harmless where c is I or W
// (memory is released earlier) and where c is the F of r's only stage (what it passes are I and W, which only
// release). On a capped rank with several stages c = F may take memory that another stage's F needs: there
// one more branch holds it until such an F has run (after which, by the same exchange, it need not be held).
//
// Dominance: of two states with equal counts and holds, one in which every rank is free no later and
// everything that has arrived, arrived no later (or before its rank is free) can copy every completion of the
// other. Both states are in the same layer, so the test is a hash look-up there. Bounds: lower_bounds.h.
#pragma once

#include <cstdint>

#include "pipeline/search_problem.h"
#include "pipeline/search_state.h"

namespace braid::pipeline {

struct BeamOptions {
  std::int64_t node_budget = 0;  // states for which a bound is computed, over all widths
  std::int64_t first_width = 16;
  std::int64_t max_bytes = 512 << 20;  // of two layers: bounds the width
  std::int64_t root_bound = 0;         // known from elsewhere
};

struct BeamResult {
  bool improved = false;  // `orders` is better than the incumbent
  Orders orders;
  std::int64_t makespan = 0;     // of the better of both
  std::int64_t lower_bound = 0;  // of every schedule; the makespan if nothing was cut
  bool complete = false;
  std::int64_t nodes = 0;
  std::int64_t width = 0;  // the last one
};

// Looks for something shorter than `incumbent` (picoseconds; INT64_MAX: none is known).
BeamResult widening_beam(const SearchInstance& in, std::int64_t incumbent, const BeamOptions& options);

}  // namespace braid::pipeline
