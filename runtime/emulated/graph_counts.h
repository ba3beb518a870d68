// Counts of graphs, for tests.
#pragma once

namespace braid::emulated {

// Since the process began, and how many executable graphs there are now.
struct GraphCounts {
  int instantiated = 0, updated = 0, launched = 0, live = 0;
};
GraphCounts graph_counts();

}  // namespace braid::emulated
