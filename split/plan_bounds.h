// What no plan can be faster than (bounds.h), and when it is known well enough.
#pragma once

#include <optional>

#include "analysis/costs/cost_model.h"

namespace braid::split {

struct PlanBounds {
  analysis::Time loads, order;
  int solves = 0;
};

// Bounds that are known of other plans, and need not be closer than to be enough; absent: as close as possible.
struct KnownBounds {
  std::optional<analysis::Time> loads, order;

  // Whether a bound is no less than one that is known, up to a thousandth, so that the least of both would hardly be more if it were
  // closer.
  static bool is_enough(analysis::Time bound, std::optional<analysis::Time> known) {
    return known && bound.ps >= known->ps - known->ps / 1000;
  }
  void add(analysis::Time own_loads, analysis::Time own_order) {
    if (!is_enough(own_loads, loads)) loads = own_loads;
    if (!is_enough(own_order, order)) order = own_order;
  }
};

}  // namespace braid::split
