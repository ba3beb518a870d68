#include "runtime/emulated/nccl_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace braid::emulated {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr std::string_view kHello =
    "braid-nccl-1 ";  // then the sender's address; the number is the version of the messages' form
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr int kRetryMs = 10;  // where a process has too many connections waiting

std::string random_address() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return {};
  std::string text;
  char digits[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

socklen_t fill(sockaddr_un& socket_address, const std::string& address) {
  const std::string name = "braid-nccl-" + address;
  socket_address = {};
  socket_address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof socket_address.sun_path - 1);
  std::memcpy(socket_address.sun_path + 1, name.data(), length);  // a name that begins with 0 is no file
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int make_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// The descriptor; -1: refused; -2: to be tried again.
int connect_to(const std::string& address) {
  const int fd = make_socket();
  if (fd < 0) return -1;
  sockaddr_un socket_address;
  const socklen_t length = fill(socket_address, address);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&socket_address), length) == 0 && same_user(fd))
    return fd;
  const bool again = errno == EAGAIN || errno == EINTR;
  close(fd);
  return again ? -2 : -1;
}

}  // namespace

Message::Message(std::string body) {
  const uint64_t length = body.size();
  bytes.reserve(kLengthBytes + body.size());
  bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += body;
}

Links::Links(LinkEvents events) : events_(std::move(events)), address_(random_address()) {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = make_socket();
  sockaddr_un socket_address;
  const socklen_t length = fill(socket_address, address_);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<const sockaddr*>(&socket_address), length) != 0 ||
      listen(listener_, SOMAXCONN) != 0)
    address_.clear();
  std::thread([this] { run(); }).detach();
}

void Links::close_all() {
  for (const auto& [address, out] : outgoing_)
    if (out.fd >= 0) close(out.fd);
  for (const Incoming& in : incoming_) close(in.fd);
  close(listener_);
  close(wake_);
}

Links::Outgoing& Links::outgoing(const std::string& to) {
  const auto [at, added] = outgoing_.try_emplace(to);
  if (added) at->second.queue.push_back(std::make_shared<Message>(std::string(kHello) + address_));
  return at->second;
}

void Links::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

void Links::post(const std::string& to, std::shared_ptr<Message> message) {
  {
    std::lock_guard lock(mutex_);
    ++message->unsent;
    outgoing(to).queue.push_back(std::move(message));
  }
  wake();
}

void Links::watch(const std::string& address) {
  {
    std::lock_guard lock(mutex_);
    outgoing(address);
  }
  wake();
}

void Links::await_sent(const Message& message, const std::function<bool()>& over) {
  while (message.unsent > 0 && !over()) {
    std::unique_lock lock(mutex_);
    sent_.wait_for(lock, std::chrono::milliseconds(kRetryMs), [&] { return message.unsent == 0; });
  }
}

void Links::accept_all() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (!same_user(fd)) {
      close(fd);
      continue;
    }
    std::lock_guard lock(mutex_);
    incoming_.push_back({fd, {}, {}});
  }
}

// False at the end of the connection, after all that came before.
bool Links::read_all(Incoming& in) {
  bool open = true;
  while (open) {
    // Reads the missing bytes, if their number is known.
    uint64_t length = 0;
    if (in.bytes.size() >= kLengthBytes) std::memcpy(&length, in.bytes.data(), kLengthBytes);
    if (length > kMostBytes) return false;  // not one of us
    const size_t missing = std::clamp<size_t>(kLengthBytes + length - in.bytes.size(), 1 << 16, 1 << 26);
    const size_t before = in.bytes.size();
    in.bytes.resize(before + missing);
    const ssize_t got = recv(in.fd, in.bytes.data() + before, missing, 0);
    in.bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    open = got > 0;
    size_t at = 0;
    while (in.bytes.size() - at >= kLengthBytes) {
      std::memcpy(&length, in.bytes.data() + at, kLengthBytes);
      if (in.bytes.size() - at - kLengthBytes < length) break;
      const std::string_view body(in.bytes.data() + at + kLengthBytes, length);
      if (!in.from.empty()) {
        events_.received(in.from, body);
      } else if (body.starts_with(kHello)) {
        in.from = body.substr(kHello.size());
      } else {
        return false;
      }
      at += kLengthBytes + length;
    }
    in.bytes.erase(0, at);
  }
  return open;
}

void Links::receive_all() {
  accept_all();
  for (size_t i = 0; i < incoming_.size();) {
    if (read_all(incoming_[i])) {
      ++i;
      continue;
    }
    const std::string from = incoming_[i].from;
    {
      std::lock_guard lock(mutex_);
      close(incoming_[i].fd);
      incoming_.erase(incoming_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!from.empty()) events_.lost(from);
  }
}

// With the mutex held. False if the process has ended.
bool Links::send_all(const std::string& to, Outgoing& out) {
  if (out.fd < 0) {
    const int fd = connect_to(to);
    if (fd == -2) return true;
    if (fd < 0) return false;
    out.fd = fd;
  }
  while (!out.queue.empty()) {
    Message& message = *out.queue.front();
    const ssize_t sent =
        send(out.fd, message.bytes.data() + out.sent, message.bytes.size() - out.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    out.sent += static_cast<size_t>(sent);
    if (out.sent < message.bytes.size()) continue;
    --message.unsent;
    out.sent = 0;
    out.queue.pop_front();
    sent_.notify_all();
  }
  return true;
}

void Links::send_to_all() {
  std::lock_guard lock(mutex_);
  for (auto& [address, out] : outgoing_)
    if (!out.failed) out.failed = !send_all(address, out);
}

void Links::drop(const std::string& address) {
  {
    std::lock_guard lock(mutex_);
    const auto at = outgoing_.find(address);
    for (const auto& message : at->second.queue) --message->unsent;
    if (at->second.fd >= 0) close(at->second.fd);
    outgoing_.erase(at);
    sent_.notify_all();
  }
  events_.lost(address);
}

// Waits until there is something to do. The addresses of processes that have ended.
std::vector<std::string> Links::wait() {
  std::vector<pollfd> polled{{wake_, POLLIN, 0}};
  if (!address_.empty()) polled.push_back({listener_, POLLIN, 0});
  for (const Incoming& in : incoming_) polled.push_back({in.fd, POLLIN, 0});
  int limit = -1;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [address, out] : outgoing_) {
      if (out.failed)
        limit = 0;
      else if (out.fd < 0)
        limit = limit < 0 ? kRetryMs : limit;
      else
        polled.push_back({out.fd, static_cast<short>(out.queue.empty() ? 0 : POLLOUT), 0});
    }
  }
  poll(polled.data(), polled.size(), limit);
  uint64_t count = 0;
  while (read(wake_, &count, sizeof count) > 0) {
  }
  const auto hung_up = [&](const Outgoing& out) {
    return out.fd >= 0 && std::any_of(polled.begin(), polled.end(), [&](const pollfd& each) {
             return each.fd == out.fd && (each.revents & (POLLHUP | POLLERR)) != 0;
           });
  };
  std::vector<std::string> ended;
  std::lock_guard lock(mutex_);
  for (const auto& [address, out] : outgoing_)
    if (out.failed || hung_up(out)) ended.push_back(address);
  return ended;
}

void Links::run() {
  for (;;) {
    const std::vector<std::string> ended = wait();
    // Messages of a process come before its end, which may have been noticed first.
    receive_all();
    for (const std::string& address : ended) drop(address);
    send_to_all();
  }
}

}  // namespace braid::emulated
