// The choice of plans for a network of one program (plan_chooser.h). If a limit of memory could bind, the
// cheapest plan without it is tried first. Otherwise the search starts from a plan within it.
#pragma once

#include "split/plan_chooser.h"

namespace braid::split {

// `plans` must outlive it.
std::unique_ptr<PlanChooser> chooser_of_one(const PlanSpace& plans);

}  // namespace braid::split
