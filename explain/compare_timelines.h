// A simulated timeline beside a measured one, as text.
#pragma once

#include <string>

#include "explain/measured_timeline.h"
#include "explain/overlap_story.h"
#include "ir/schedule.h"

namespace braid::explain {

// Compares a simulated timeline with the measured one: makespan, time by kind, a row per collective, and
// where the orders differ.
std::string compare(const OverlapStory& story, const ir::Schedule& schedule,
                    const MeasuredTimeline& measured);

}  // namespace braid::explain
