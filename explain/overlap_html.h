// The story of the passes as one page: drawn as SVG, without external resources.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "explain/overlap_story.h"

namespace braid::explain {

// One self-contained page with timelines, memory curves and tables. `views` holds names and timelines, in
// order.
std::string html_page(const OverlapStory& story,
                      const std::vector<std::pair<std::string, const TimelineView*>>& views);

}  // namespace braid::explain
