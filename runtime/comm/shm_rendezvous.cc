// Gives independent processes shared memory. Rank 0 makes an anonymous file (memfd) and listens on a socket
// in the abstract namespace; every other rank connects and receives the file once all are present. Neither
// has an entry in a file system: a killed run leaves nothing behind, a later run cannot meet a dead one, and
// the size of /dev/shm does not matter.
//
// Any process on the machine can listen on such a name or connect to it. So both sides ask the kernel for the
// other's user before they send or trust anything, and a rank that meets another user keeps looking for its
// own run until the time-out, which then names that user. The name and each message contain the run.
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
#include "runtime/comm/process_identity.h"
#include "runtime/comm/settings.h"
#include "runtime/comm/shm_arena.h"
#include "runtime/comm/shm_world.h"
#include "runtime/comm/socket.h"
#include "runtime/hash.h"

namespace braid::rt {
namespace shm {
namespace {

struct Hello {  // rank r to rank 0; rank 0 to another rank 0
  uint32_t magic;
  int32_t rank;
  int32_t size;
  int32_t padding;
  uint64_t run;  // another hash than the one in the name
  uint64_t segment_bytes;
  uint64_t staging_bytes;
};

struct Answer {  // rank 0 to rank r; a file comes with it when code is ok
  uint32_t code;
  char text[1020];
};
constexpr uint32_t kComeAgain = 1000;  // this rendezvous is over, the next one may be yours

constexpr int64_t kHelloNs = 1'000'000'000;  // in which a connected rank must send its Hello

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
};

Address address_of(const std::string& run_id) {
  const std::string name = rendezvous_name(run_id);
  Address address;
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());  // a leading zero byte: abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

uint64_t hash_of_run(const std::string& run_id) { return fnv1a("meeting of " + run_id); }

// Never blocks, unlike connecting to a listener that accepts no one.
Socket new_socket() { return Socket(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

Status socket_error(const std::string& what) {
  return Status::error(StatusCode::system, "rendezvous: " + what + ": " + std::strerror(errno));
}

// The process at the other end; for a listening socket, the one that listens.
ucred peer_of(const Socket& socket) {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t length = sizeof peer;
  getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
  return peer;
}

bool is_ours(const ucred& peer) { return peer.uid == geteuid(); }

std::string process(pid_t pid) { return "process " + std::to_string(pid); }

void send_answer(int fd, uint32_t code, const std::string& text, int file) {
  Answer answer{.code = code, .text = {}};
  std::memcpy(answer.text, text.data(), std::min(text.size(), sizeof answer.text - 1));
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  (void)sendmsg(fd, &message, MSG_NOSIGNAL);  // a rank that is gone will be reported later, by name
}

// *again: no answer came; the peer belongs to an earlier rendezvous, or has gone.
Status receive_answer(const Socket& socket, int* file, bool* again) {
  Answer answer{};
  iovec data{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC);
  *again = false;
  if (length != sizeof answer || answer.code == kComeAgain) {
    const pid_t other = peer_of(socket).pid;
    *again = maybe_alive({.pid = other, .pid_namespace = current_process().pid_namespace});
    if (*again) return {};
    return Status::error(StatusCode::peer_died,
                         "rendezvous: rank 0 (" + process(other) + ") died before all ranks had arrived");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(file, CMSG_DATA(header), sizeof *file);
  answer.text[sizeof answer.text - 1] = '\0';
  if (answer.code != 0) return Status::error(static_cast<StatusCode>(answer.code), answer.text);
  return *file >= 0 ? Status{}
                    : Status::error(StatusCode::system, "rendezvous: no file came with the answer");
}

// One process's search for the others.
class Meeting {
 public:
  Meeting(int rank, int size, const std::string& run_id, const WorldOptions& options, int64_t timeout_ms)
      : hello_{kMagic, rank, size, 0, hash_of_run(run_id), options.segment_bytes, options.staging_bytes},
        run_("run '" + run_id + "'"),
        address_(address_of(run_id)),
        deadline_(monotonic_ns() + timeout_ms * 1'000'000),
        arrived_(size) {}

  // Rank 0 takes the address, then collects one connection of every other rank, then answers them.
  Status take_address();
  Status collect();
  void answer(const Status& status, int file);

  // Every other rank.
  Status ask_rank_0(int* file);

 private:
  struct Arrived {
    Socket socket;
    pid_t pid = 0;
  };
  Status reach_rank_0(Socket* out);
  Status ask(const Socket& rank_0, int* file, bool* again) const;
  bool hear(const Socket& peer, Hello* hello) const;
  std::string difference(const Hello& hello, pid_t pid) const;
  Status meet_next();
  Status meet_stragglers();
  Status taken(const std::string& what) const;

  Hello hello_;
  std::string run_;
  Address address_;
  int64_t deadline_;
  Socket listener_;
  std::vector<Arrived> arrived_;
  bool crowded_ = false;  // the address has more connections than its owner has accepted
  ucred stranger_{};      // another user that has the address; pid 0: none was met
};

// The time-out, with the stranger that may be its cause.
Status Meeting::taken(const std::string& what) const {
  std::string text = "rendezvous: " + what;
  if (stranger_.pid != 0) {
    text += "; its address is taken by " + process(stranger_.pid) + " of user " +
            std::to_string(stranger_.uid) + ", which is not our process and was told nothing";
  } else if (crowded_) {
    text += "; the process that has its address accepts no connections";
  }
  return Status::error(StatusCode::timed_out, text);
}

Status Meeting::take_address() {
  for (;;) {
    listener_ = new_socket();
    if (listener_.fd() < 0) return socket_error("socket");
    if (bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&address_.value), address_.length) == 0)
      return listen(listener_.fd(), 1024) == 0 ? Status{} : socket_error("listen");
    if (errno != EADDRINUSE) return socket_error("bind");
    const Socket holder = new_socket();
    if (connect(holder.fd(), reinterpret_cast<const sockaddr*>(&address_.value), address_.length) == 0) {
      const ucred peer = peer_of(holder);
      int none = -1;
      bool again = true;
      if (!is_ours(peer)) {
        stranger_ = peer;
      } else if (Status answered = ask(holder, &none, &again); !answered.ok()) {
        return answered;  // the other one has learnt that there are two
      }
    } else {
      crowded_ = errno == EAGAIN;
    }
    if (monotonic_ns() > deadline_) return taken("rank 0 of " + run_ + " cannot listen");
    usleep(10'000);
  }
}

bool Meeting::hear(const Socket& peer, Hello* hello) const {
  return wait_readable(peer.fd(), std::min(deadline_, monotonic_ns() + kHelloNs)) &&
         recv(peer.fd(), hello, sizeof *hello, 0) == sizeof *hello && hello->magic == kMagic &&
         hello->run == hello_.run;
}

// Empty if `hello` matches rank 0's settings; otherwise the difference.
std::string Meeting::difference(const Hello& hello, pid_t pid) const {
  const std::string who = "rank " + std::to_string(hello.rank);
  const auto differs = [&](const char* what, uint64_t theirs, uint64_t ours) {
    return who + " has " + what + " " + std::to_string(theirs) + ", rank 0 has " + std::to_string(ours);
  };
  if (hello.size != hello_.size) return differs("a World size of", hello.size, hello_.size);
  if (hello.rank < 0 || hello.rank >= hello_.size) return who + " is not a rank of this World";
  const pid_t first = hello.rank == 0 ? getpid() : arrived_[hello.rank].pid;
  if (first != 0) return who + " of " + run_ + " exists twice: " + process(first) + " and " + process(pid);
  if (hello.segment_bytes != hello_.segment_bytes)
    return differs("segment bytes", hello.segment_bytes, hello_.segment_bytes);
  if (hello.staging_bytes != hello_.staging_bytes)
    return differs("staging bytes", hello.staging_bytes, hello_.staging_bytes);
  return {};
}

// Takes one connection; strangers and silent processes are not counted.
Status Meeting::meet_next() {
  Socket peer(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  Hello hello{};
  if (peer.fd() < 0) return {};
  const ucred who = peer_of(peer);
  if (!is_ours(who) || !hear(peer, &hello)) return {};
  const bool in_range = hello.rank > 0 && hello.rank < hello_.size;
  if (in_range && arrived_[hello.rank].pid == who.pid) {  // it has given up, and wants the next rendezvous
    send_answer(peer.fd(), kComeAgain, {}, -1);
    return {};
  }
  const std::string text = difference(hello, who.pid);
  if (text.empty()) {
    arrived_[hello.rank] = {std::move(peer), who.pid};
    return {};
  }
  Status error = Status::error(StatusCode::disagreement, "rendezvous: " + text);
  send_answer(peer.fd(), static_cast<uint32_t>(error.code), error.message, -1);
  return error;
}

Status Meeting::collect() {
  for (;;) {
    std::string missing;
    for (int rank = 1; rank < hello_.size; ++rank) {
      if (arrived_[rank].pid == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (missing.empty()) return meet_stragglers();
    if (!wait_readable(listener_.fd(), deadline_))
      return Status::error(StatusCode::timed_out, "rendezvous: these ranks have not arrived: " + missing);
    if (Status met = meet_next(); !met.ok()) return met;
  }
}

// All ranks are present; any further one is a duplicate.
Status Meeting::meet_stragglers() {
  for (pollfd entry{.fd = listener_.fd(), .events = POLLIN, .revents = 0}; poll(&entry, 1, 0) > 0;) {
    if (Status met = meet_next(); !met.ok()) return met;
  }
  return {};
}

void Meeting::answer(const Status& status, int file) {
  for (const Arrived& peer : arrived_) {
    if (peer.pid != 0)
      send_answer(peer.socket.fd(), static_cast<uint32_t>(status.code), status.message, file);
  }
  if (status.ok()) return;
  // Other waiting connections are told as well.
  for (pollfd entry{.fd = listener_.fd(), .events = POLLIN, .revents = 0}; poll(&entry, 1, 0) > 0;) {
    const Socket peer(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    if (peer.fd() >= 0 && is_ours(peer_of(peer)) && hear(peer, &hello))
      send_answer(peer.fd(), static_cast<uint32_t>(status.code), status.message, -1);
  }
}

Status Meeting::reach_rank_0(Socket* out) {
  for (;;) {
    *out = new_socket();
    if (out->fd() < 0) return socket_error("socket");
    if (connect(out->fd(), reinterpret_cast<const sockaddr*>(&address_.value), address_.length) == 0) {
      const ucred peer = peer_of(*out);
      if (is_ours(peer)) return {};
      stranger_ = peer;
    } else if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return socket_error("connect");
    } else {
      crowded_ = errno == EAGAIN;
    }
    if (monotonic_ns() > deadline_) return taken("rank 0 of " + run_ + " has not arrived");
    usleep(2'000);
  }
}

Status Meeting::ask(const Socket& rank_0, int* file, bool* again) const {
  *again = send(rank_0.fd(), &hello_, sizeof hello_, MSG_NOSIGNAL) != sizeof hello_;
  if (*again) return {};
  // Rank 0 gives up at its own deadline and then says which ranks are missing; this leaves it the time to do
  // so.
  if (!wait_readable(rank_0.fd(), deadline_ + 2'000'000'000)) {
    return Status::error(StatusCode::timed_out, "rendezvous: rank 0 of " + run_ + " (" +
                                                    process(peer_of(rank_0).pid) + ") does not answer");
  }
  return receive_answer(rank_0, file, again);
}

Status Meeting::ask_rank_0(int* file) {
  for (;;) {
    Socket socket;
    if (Status reached = reach_rank_0(&socket); !reached.ok()) return reached;
    bool again = false;
    if (Status answered = ask(socket, file, &again); !answered.ok() || !again) return answered;
    if (monotonic_ns() > deadline_) return taken("rank 0 of " + run_ + " has not arrived");
    usleep(2'000);
  }
}

}  // namespace

Status Arena::rendezvous(int rank, int size, const std::string& run_id, const WorldOptions& options,
                         std::shared_ptr<Arena>* out) {
  int64_t timeout_ms = 0;
  if (Status known = timeout_in_force(options, &timeout_ms); !known.ok()) return known;
  Meeting meeting(rank, size, run_id, options, timeout_ms);
  if (rank == 0) {
    if (Status listening = meeting.take_address(); !listening.ok()) return listening;
    Status status = meeting.collect();
    if (status.ok()) status = create_anonymous(size, options, out);
    meeting.answer(status, status.ok() ? (*out)->fd_ : -1);
    return status;
  }
  int file = -1;
  if (Status received = meeting.ask_rank_0(&file); !received.ok()) return received;
  return map_file(file, size, timeout_ms, out);
}

}  // namespace shm

std::string rendezvous_name(const std::string& run_id) {
  return "braid-" + std::to_string(geteuid()) + "-" + std::to_string(fnv1a(run_id));
}

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
