#include "runtime/comm/socket.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "runtime/comm/futex.h"

namespace braid::rt {

bool wait_readable(int fd, int64_t deadline_ns) {
  for (;;) {
    const int64_t left_ms = (deadline_ns - monotonic_ns()) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace braid::rt
