#include "runtime/comm/paced_link.h"

#include <time.h>

#include <algorithm>
#include <cerrno>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/futex.h"

namespace braid::rt {
namespace {

constexpr int64_t kTimerSlackNs = 60'000;  // that the kernel may add to a sleep

}  // namespace

size_t link_bytes(CollectiveKind kind, size_t block_bytes, size_t members) {
  if (members < 2) return 0;
  const CollectiveRow& row = row_of(kind);
  if (row.in == Blocks::all || row.out == Blocks::all) return block_bytes * (members - 1);
  if (row.reduces) return 2 * block_bytes * (members - 1) / members;
  return row.in == row.out && row.in == Blocks::none ? 0 : block_bytes;
}

int64_t PacedLink::book(int64_t last_start_ns, size_t bytes) {
  const double wire_ns = pacing_.bytes_per_ns > 0 ? static_cast<double>(bytes) / pacing_.bytes_per_ns : 0;
  busy_until_ns_ =
      std::max(last_start_ns, busy_until_ns_) + pacing_.latency_ns + static_cast<int64_t>(wire_ns);
  return busy_until_ns_;
}

void sleep_until(int64_t due_ns) {
  const int64_t wake_ns = due_ns - kTimerSlackNs;
  if (wake_ns > monotonic_ns()) {
    const timespec wake{wake_ns / 1'000'000'000, wake_ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
    }
  }
  while (monotonic_ns() < due_ns) cpu_pause();
}

}  // namespace braid::rt
