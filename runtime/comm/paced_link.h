// The paced-link engine, for tests and measurements of overlap: the shared-memory engine moves the data, and
// a collective completes no earlier than a link of a given latency and bandwidth would have delivered it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/comm/communicator.h"

namespace braid::rt {

// A collective is complete latency + bytes / bandwidth after all its participants have started and the
// previous transfer of the communicator (of the pair, for send and recv) is complete. Waiting for it uses no
// processor time.
struct LinkPacing {
  int64_t latency_ns = 0;
  double bytes_per_ns = 0;  // equal to GB/s; 0: no limit
};

// Bytes that one of `members` ranks sends over its link: that of a ring for reductions and gathers.
size_t link_bytes(CollectiveKind kind, size_t block_bytes, size_t members);

// One communicator's link as one member sees it. All members compute the same times from the same start
// times, so no message is needed.
class PacedLink {
 public:
  explicit PacedLink(const LinkPacing& pacing) : pacing_(pacing) {}

  // Books the next transfer; returns the monotonic time at which it is complete.
  int64_t book(int64_t last_start_ns, size_t bytes);

 private:
  LinkPacing pacing_;
  int64_t busy_until_ns_ = 0;
};

// Sleeps until the monotonic clock reaches due_ns, to within some microseconds.
void sleep_until(int64_t due_ns);

}  // namespace braid::rt
