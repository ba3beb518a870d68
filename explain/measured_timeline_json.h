// Measured timelines as files.
#pragma once

#include <string>

#include "explain/measured_timeline.h"

namespace braid::explain {

// A Chrome trace of the median step, plus the data that parse_timeline needs.
std::string to_json(const MeasuredTimeline& t);
// User errors, with line and column: 1 (cannot be read), 558 (not JSON) and 559 (not a timeline of `braid run
// --trace`).
MeasuredTimeline read_timeline(const std::string& path);
MeasuredTimeline parse_timeline(const std::string& text, const std::string& file);

}  // namespace braid::explain
