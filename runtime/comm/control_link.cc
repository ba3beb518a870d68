#include "runtime/comm/control_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/comm/futex.h"

namespace braid::rt::control {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const Address& address, std::string* why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) *why = "'" + address.host + "' is no known host: " + gai_strerror(error);
  return {found, freeaddrinfo};
}

Socket new_socket(int family) {
  return Socket(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void set(const Socket& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.fd(), level, option, &on, sizeof on);
}

// A connection to a free port of this machine may come from that very port: it then connects to itself.
bool is_own_end(const Socket& socket) {
  sockaddr_storage ends[2] = {};
  socklen_t lengths[2] = {sizeof ends[0], sizeof ends[1]};
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&ends[0]), &lengths[0]);
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&ends[1]), &lengths[1]);
  return lengths[0] == lengths[1] && std::memcmp(&ends[0], &ends[1], lengths[0]) == 0;
}

// 0, or the error.
int bind_and_listen(const sockaddr* address, socklen_t length, Socket* out) {
  *out = new_socket(address->sa_family);
  if (out->fd() < 0) return errno;
  set(*out, SOL_SOCKET, SO_REUSEADDR);
  return bind(out->fd(), address, length) == 0 && listen(out->fd(), 1024) == 0 ? 0 : errno;
}

}  // namespace

Status listen_at(const Address& address, Socket* out) {
  std::string why;
  const Addresses found = resolve(address, &why);
  if (found == nullptr) return Status::error(StatusCode::invalid_argument, why);
  int error = bind_and_listen(found->ai_addr, found->ai_addrlen, out);
  if (error == EADDRNOTAVAIL) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<uint16_t>(address.port));
    error = bind_and_listen(reinterpret_cast<const sockaddr*>(&any), sizeof any, out);
  }
  if (error == 0) return {};
  *out = Socket();
  return Status::error(StatusCode::system,
                       "cannot listen at " + address.text() + ": " + std::strerror(error));
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Socket connect_to(const Address& address, int64_t deadline_ns, std::string* why) {
  const Addresses found = resolve(address, why);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    Socket socket = new_socket(each->ai_family);
    int error = connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd entry{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
      const int64_t left_ms = std::clamp<int64_t>((deadline_ns - monotonic_ns()) / 1'000'000, 0, 1'000'000);
      socklen_t length = sizeof error;
      if (poll(&entry, 1, static_cast<int>(left_ms)) <= 0)
        error = ETIMEDOUT;
      else
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && is_own_end(socket)) error = ECONNREFUSED;
    if (error == 0) {
      set(socket, IPPROTO_TCP, TCP_NODELAY);
      return socket;
    }
    *why = std::strerror(error);
  }
  return Socket();
}

std::string Link::peer_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getpeername(fd(), reinterpret_cast<sockaddr*>(&address), &length);
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + ":" + port;
}

void Link::send(Kind kind, std::string_view fields) {
  if (ended_) return;
  out_ += Writer()
              .number(kMagic, 4)
              .number(static_cast<uint32_t>(kind), 4)
              .number(fields.size(), 4)
              .raw(fields)
              .done();
  flush();
}

void Link::flush() {
  while (!out_.empty() && !ended_) {
    const ssize_t sent = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      out_.clear();  // what the peer has said before is still to be read
    }
  }
}

void Link::receive() {
  char buffer[4096];
  while (!ended_) {
    const ssize_t got = recv(fd(), buffer, sizeof buffer, 0);
    if (got > 0) {
      in_.append(buffer, static_cast<size_t>(got));
      if (in_.size() > kMostBytes + kHeaderBytes) return;  // the rest later
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      ended_ = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      return;
    }
  }
}

std::optional<Message> Link::next() {
  if (in_.size() < kHeaderBytes || nonsense_) return std::nullopt;
  Reader header(std::string_view(in_).substr(0, kHeaderBytes));
  const uint64_t magic = header.number(4), kind = header.number(4), bytes = header.number(4);
  if (magic != kMagic || kind >= static_cast<uint64_t>(Kind::count) || bytes > kMostBytes) {
    ended_ = nonsense_ = true;
    return std::nullopt;
  }
  if (in_.size() < kHeaderBytes + bytes) return std::nullopt;
  Message message{static_cast<Kind>(kind), in_.substr(kHeaderBytes, bytes)};
  in_.erase(0, kHeaderBytes + bytes);
  return message;
}

}  // namespace braid::rt::control
