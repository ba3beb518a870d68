// How independent processes come to one shared memory. Rank 0 makes a file without a name (memfd) and listens
// on a socket in the abstract namespace; every other rank connects and is handed the file once all are there.
// Neither has an entry in any file system: whatever is killed and when, nothing remains, nothing of a dead
// run can be met by a later one, and the size of /dev/shm does not matter.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/comm/futex.h"
#include "runtime/comm/settings.h"
#include "runtime/comm/shm_arena.h"
#include "runtime/comm/shm_world.h"
#include "runtime/hash.h"

namespace braid::rt {
namespace shm {
namespace {

struct Hello {  // rank r to rank 0
  uint32_t magic;
  int32_t rank;
  int32_t size;
  int32_t padding;
  uint64_t segment_bytes;
  uint64_t staging_bytes;
};

struct Answer {  // rank 0 to rank r; a file comes with it when code is ok
  uint32_t code;
  char text[1020];
};

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

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
};

Address address_of(const std::string& run_id) {
  const std::string name = "braid-" + std::to_string(getuid()) + "-" + std::to_string(fnv1a(run_id));
  Address address;
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());  // a leading zero byte: abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Status socket_error(const std::string& what) {
  return Status::error(StatusCode::system, "rendezvous: " + what + ": " + std::strerror(errno));
}

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

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

void send_answer(int fd, const Status& status, int file) {
  Answer answer{.code = static_cast<uint32_t>(status.code), .text = {}};
  std::memcpy(answer.text, status.message.data(), std::min(status.message.size(), sizeof answer.text - 1));
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (status.ok()) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  (void)sendmsg(fd, &message, MSG_NOSIGNAL);  // a rank that is gone will be missed later, by name
}

Status receive_answer(int fd, int* file) {
  Answer answer{};
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (length != sizeof answer) {
    return Status::error(StatusCode::peer_died, "rendezvous: rank 0 died before all ranks had arrived");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(file, CMSG_DATA(header), sizeof *file);
  answer.text[sizeof answer.text - 1] = '\0';
  if (answer.code != 0) return Status::error(static_cast<StatusCode>(answer.code), answer.text);
  return *file >= 0 ? Status{}
                    : Status::error(StatusCode::system, "rendezvous: no file came with the answer");
}

// Empty if `hello` fits to what rank 0 has; else what does not.
std::string difference(const Hello& hello, int size, const WorldOptions& options,
                       const std::vector<Socket>& arrived) {
  const std::string who = "rank " + std::to_string(hello.rank);
  const auto differs = [&](const char* what, uint64_t theirs, uint64_t ours) {
    return who + " has " + what + " " + std::to_string(theirs) + ", rank 0 has " + std::to_string(ours);
  };
  if (hello.size != size) return differs("a World size of", hello.size, size);
  if (hello.rank < 1 || hello.rank >= size) return who + " is not a rank of this World";
  if (arrived[hello.rank].fd() >= 0) return who + " exists twice";
  if (hello.segment_bytes != options.segment_bytes) {
    return differs("segment bytes", hello.segment_bytes, options.segment_bytes);
  }
  if (hello.staging_bytes != options.staging_bytes) {
    return differs("staging bytes", hello.staging_bytes, options.staging_bytes);
  }
  return {};
}

Status bind_listener(const Address& address, const std::string& run_id, int64_t deadline, Socket* out) {
  *out = Socket(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (out->fd() < 0) return socket_error("socket");
  while (bind(out->fd(), reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0) {
    if (errno != EADDRINUSE) return socket_error("bind");
    if (monotonic_ns() > deadline) {
      return Status::error(StatusCode::timed_out,
                           "rendezvous: another rank 0 of run '" + run_id + "' is waiting");
    }
    usleep(10'000);
  }
  return listen(out->fd(), 1024) == 0 ? Status{} : socket_error("listen");
}

// Rank 0: collects one connection of every other rank.
Status collect(const Socket& listener, int size, const WorldOptions& options, int64_t deadline,
               std::vector<Socket>* arrived) {
  for (int missing = size - 1; missing > 0;) {
    if (!wait_readable(listener.fd(), deadline)) {
      std::string text;
      for (int rank = 1; rank < size; ++rank) {
        if ((*arrived)[rank].fd() < 0) text += (text.empty() ? "" : ", ") + std::to_string(rank);
      }
      return Status::error(StatusCode::timed_out, "rendezvous: these ranks have not arrived: " + text);
    }
    Socket peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    if (peer.fd() < 0 || !same_user(peer.fd()) || !wait_readable(peer.fd(), deadline) ||
        recv(peer.fd(), &hello, sizeof hello, 0) != sizeof hello || hello.magic != kMagic) {
      continue;
    }
    if (const std::string text = difference(hello, size, options, *arrived); !text.empty()) {
      Status error = Status::error(StatusCode::disagreement, "rendezvous: " + text);
      send_answer(peer.fd(), error, -1);
      return error;
    }
    (*arrived)[hello.rank] = std::move(peer);
    --missing;
  }
  return {};
}

Status connect_to_rank_0(const Address& address, const std::string& run_id, int64_t deadline, Socket* out) {
  for (;;) {
    *out = Socket(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (out->fd() < 0) return socket_error("socket");
    if (connect(out->fd(), reinterpret_cast<const sockaddr*>(&address.value), address.length) == 0) return {};
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) return socket_error("connect");
    if (monotonic_ns() > deadline) {
      return Status::error(StatusCode::timed_out,
                           "rendezvous: rank 0 of run '" + run_id + "' has not arrived");
    }
    usleep(2'000);
  }
}

}  // namespace

Status Arena::rendezvous(int rank, int size, const std::string& run_id, const WorldOptions& options,
                         std::shared_ptr<Arena>* out) {
  int64_t timeout_ms = 0;
  if (Status known = timeout_in_force(options, &timeout_ms); !known.ok()) return known;
  const int64_t deadline = monotonic_ns() + timeout_ms * 1'000'000;
  const Address address = address_of(run_id);
  if (rank == 0) {
    Socket listener;
    if (Status bound = bind_listener(address, run_id, deadline, &listener); !bound.ok()) return bound;
    std::vector<Socket> arrived(size);
    Status status = collect(listener, size, options, deadline, &arrived);
    if (status.ok()) status = create_anonymous(size, options, out);
    for (const Socket& peer : arrived) {
      if (peer.fd() >= 0) send_answer(peer.fd(), status, status.ok() ? (*out)->fd_ : -1);
    }
    return status;
  }
  Socket socket;
  if (Status reached = connect_to_rank_0(address, run_id, deadline, &socket); !reached.ok()) return reached;
  const Hello hello{kMagic, rank, size, 0, options.segment_bytes, options.staging_bytes};
  if (send(socket.fd(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return socket_error("send");
  // Rank 0 gives up at its own deadline and then says who is missing: leave it the time to.
  if (!wait_readable(socket.fd(), deadline + 2'000'000'000)) {
    return Status::error(StatusCode::timed_out, "rendezvous: rank 0 does not answer");
  }
  int file = -1;
  if (Status received = receive_answer(socket.fd(), &file); !received.ok()) return received;
  return map_file(file, size, timeout_ms, out);
}

}  // namespace shm

Status join_world(int rank, int size, const std::string& run_id, const WorldOptions& options,
                  std::unique_ptr<World>* out) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status::error(StatusCode::invalid_argument,
                         "rank " + std::to_string(rank) + " of a World of " + std::to_string(size));
  }
  SharedMemory memory;
  Status met = shm::Arena::rendezvous(rank, size, run_id, options, &memory.arena_);
  return met.ok() ? memory.attach(rank, out) : met;
}

}  // namespace braid::rt
