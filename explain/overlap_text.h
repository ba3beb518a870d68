// The story of the passes as text, as JSON, and as a Chrome trace.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "explain/overlap_story.h"

namespace braid::explain {

// As text: a heading and a table per pass, then a summary.
std::string to_text(const OverlapStory& story);
// As JSON: version 1, times in ns, sizes in bytes.
std::string to_json(const OverlapStory& story);
// Chrome trace events of the timelines, one process each.
std::string chrome_trace(const std::vector<std::pair<std::string, const TimelineView*>>& views);

}  // namespace braid::explain
