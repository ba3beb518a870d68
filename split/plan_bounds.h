// Lower bounds on the time of all plans (bound_search.h), and a test whether they are tight enough.
#pragma once

#include <optional>

#include "analysis/costs/cost_model.h"

namespace braid::split {

struct PlanBounds {
  analysis::Time loads, order;
  int solves = 0;
};

// Bounds of other plans that are known. A new bound need not be tighter than needed for is_enough; absent: as
// tight as possible.
struct KnownBounds {
  std::optional<analysis::Time> loads, order;

  // Whether a bound is at least the known one, up to a thousandth. A tighter one would hardly raise the
  // smaller of the two.
  static bool is_enough(analysis::Time bound, std::optional<analysis::Time> known) {
    return known && bound.ps >= known->ps - known->ps / 1000;
  }
  void add(analysis::Time own_loads, analysis::Time own_order) {
    if (!is_enough(own_loads, loads)) loads = own_loads;
    if (!is_enough(own_order, order)) order = own_order;
  }
};

}  // namespace braid::split
