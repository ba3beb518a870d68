// Owns a socket, or another descriptor of this process.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace braid::rt {

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Waits until there is something to read (or to accept), at most until the deadline on the monotonic clock.
bool wait_readable(int fd, int64_t deadline_ns);

}  // namespace braid::rt
