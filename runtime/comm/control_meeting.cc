#include "runtime/comm/control_meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "runtime/comm/futex.h"
#include "runtime/comm/keyed_digest.h"

namespace braid::rt::control {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kHelloNs = 5'000 * kMs;  // in which a connection must identify itself
constexpr size_t kMostStrangers = 128;     // connections that have not said so; the oldest go first
constexpr int64_t kGraceNs = 2'000 * kMs;  // after its deadline rank 0 still names the missing ranks
constexpr int64_t kAgainUs = 10'000;       // between two attempts to reach rank 0
constexpr int64_t kChallengeNs =
    3'000 * kMs;  // in which rank 0 speaks; longer: it does not listen yet, or another does
constexpr int64_t kDoubtNs = 1'000 * kMs;  // in which what may be another run's process may go away
constexpr size_t kNonceBytes = 16;

std::string nonce() {
  std::string bytes(kNonceBytes, '\0');
  (void)getrandom(bytes.data(), bytes.size(), 0);
  return bytes;
}

// The kind of the message is part of the proof.
Digest proof(const ControlOptions& options, Kind kind, std::string_view nonce, std::string_view fields) {
  return keyed_digest(options.secret,
                      Writer().number(static_cast<uint32_t>(kind), 4).raw(nonce).raw(fields).done());
}

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Fields, then the proof.
std::string with_proof(const ControlOptions& options, Kind kind, std::string_view nonce,
                       const std::string& fields) {
  return fields + std::string(as_text(proof(options, kind, nonce, fields)));
}

// The fields without the proof, if it is right.
std::optional<std::string> proved(const ControlOptions& options, const Message& message,
                                  std::string_view nonce) {
  Digest given;
  if (message.fields.size() < given.size()) return std::nullopt;
  const size_t size = message.fields.size() - given.size();
  std::copy_n(message.fields.begin() + static_cast<std::ptrdiff_t>(size), given.size(), given.begin());
  std::string fields = message.fields.substr(0, size);
  if (!equal(given, proof(options, message.kind, nonce, fields))) return std::nullopt;
  return fields;
}

struct Hello {
  std::string run, subject, nonce;
  int64_t rank = 0, size = 0;
  Member member;
};

std::string write(const Hello& hello) {
  return Writer()
      .text(hello.run)
      .text(hello.subject)
      .raw(hello.nonce)
      .number(static_cast<uint64_t>(hello.rank))
      .number(static_cast<uint64_t>(hello.size))
      .number(static_cast<uint64_t>(hello.member.process))
      .text(hello.member.host)
      .done();
}

std::optional<Hello> read_hello(std::string_view fields) {
  Reader in(fields);
  Hello hello;
  hello.run = in.text();
  hello.subject = in.text();
  hello.nonce = in.raw(kNonceBytes);
  hello.rank = static_cast<int64_t>(in.number());
  hello.size = static_cast<int64_t>(in.number());
  hello.member.process = static_cast<int64_t>(in.number());
  hello.member.host = in.text();
  return in.whole() ? std::optional(hello) : std::nullopt;
}

// Rank 0's side.
class Reception {
 public:
  Reception(const ControlOptions& options, const Socket& listener)
      : options_(options),
        listener_(listener),
        deadline_(monotonic_ns() + options.timeout_ms * kMs),
        guests_(static_cast<size_t>(options.size)) {}

  Status collect() {
    while (missing() > 0 && failed_.ok()) {
      const int64_t now = monotonic_ns();
      if (now > deadline_) return out_of_time();
      wait(now);
      accept_all();
      for (Stranger& stranger : strangers_) listen_to(stranger);
      std::erase_if(strangers_, [&](const Stranger& each) { return each.done || each.until < now; });
      for (size_t r = 1; r < guests_.size() && failed_.ok(); ++r) check_presence(r);
    }
    return failed_;
  }

  void answer(const Status& status, const std::string& fields) {
    for (std::optional<Guest>& guest : guests_) {
      if (guest) reply(guest->link, guest->nonce, status, fields);
    }
    for (Stranger& refused : refused_) reply(refused.link, refused.nonce, status, fields);
    // An answer that a socket does not take at once is lost: answers are far smaller than any socket's
    // buffer.
  }

  std::vector<Link> take_links() {
    std::vector<Link> links;
    links.emplace_back(Socket());
    for (size_t r = 1; r < guests_.size(); ++r) links.push_back(std::move(guests_[r]->link));
    return links;
  }
  Member member(size_t rank) const { return rank == 0 ? this_member() : guests_[rank]->member; }

 private:
  struct Stranger {
    Link link;
    std::string nonce;  // of the challenge; once it has said hello: its own
    int64_t until;
    bool done = false;
  };
  struct Guest {
    Link link;
    std::string nonce;
    Member member;
  };

  long missing() const { return std::count(guests_.begin() + 1, guests_.end(), std::nullopt); }

  void wait(int64_t now) const {
    std::vector<pollfd> sockets = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const Stranger& each : strangers_)
      sockets.push_back({.fd = each.link.fd(), .events = POLLIN, .revents = 0});
    for (const std::optional<Guest>& each : guests_) {
      if (each) sockets.push_back({.fd = each->link.fd(), .events = POLLIN, .revents = 0});
    }
    const int64_t left_ms = (deadline_ - now) / kMs + 1;
    poll(sockets.data(), sockets.size(), static_cast<int>(std::min<int64_t>(left_ms, 1000)));
  }

  void accept_all() {
    for (;;) {
      Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.fd() < 0) return;
      const int on = 1;
      setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (strangers_.size() >= kMostStrangers) strangers_.erase(strangers_.begin());
      strangers_.push_back({Link(std::move(socket)), nonce(), monotonic_ns() + kHelloNs});
      strangers_.back().link.send(Kind::challenge,
                                  Writer().number(kVersion, 4).raw(strangers_.back().nonce).done());
    }
  }

  void listen_to(Stranger& stranger) {
    stranger.link.receive();
    const std::optional<Message> message = stranger.link.next();
    if (!message) {
      stranger.done = stranger.link.ended();
      return;
    }
    stranger.done = true;
    if (message->kind != Kind::hello) return;
    const std::optional<std::string> fields = proved(options_, *message, stranger.nonce);
    if (!fields) {
      note_ = "; a process at " + stranger.link.peer_address() + " has not proved that it knows the secret";
      // The receiver can see that the sender of this answer does not have its secret.
      reply(stranger.link, stranger.nonce, Status::error(StatusCode::disagreement, "unknown secret"), {});
      return;
    }
    const std::optional<Hello> hello = read_hello(*fields);
    if (!hello || hello->run != options_.run) return;  // of another run: it comes again
    greet(stranger, *hello);
  }

  void greet(Stranger& stranger, const Hello& hello) {
    const std::string difference = compare(hello);
    if (difference.empty()) {
      guests_[static_cast<size_t>(hello.rank)] = Guest{std::move(stranger.link), hello.nonce, hello.member};
      return;
    }
    if (failed_.ok()) failed_ = Status::error(StatusCode::disagreement, "rendezvous: " + difference);
    refused_.push_back({std::move(stranger.link), hello.nonce, 0});
  }

  // Empty if `hello` fits this run.
  std::string compare(const Hello& hello) const {
    const int rank = static_cast<int>(std::clamp<int64_t>(hello.rank, -1, options_.size));
    const std::string who = hello.member.text(rank), first = this_member().text(0);
    if (hello.size != options_.size) {
      return who + " is one of " + std::to_string(hello.size) + " ranks, " + first + " is one of " +
             std::to_string(options_.size);
    }
    if (hello.rank < 0 || hello.rank >= options_.size)
      return who + " is not one of the " + std::to_string(options_.size) + " ranks";
    if (rank == 0) return "there are two ranks 0: " + first + " and " + who;
    if (const auto& guest = guests_[static_cast<size_t>(rank)])
      return "there are two ranks " + std::to_string(rank) + ": " + guest->member.text(rank) + " and " + who;
    if (hello.subject != options_.subject.substr(0, kMostText))
      return who + " runs " + hello.subject + ", " + first + " runs " + options_.subject;
    return {};
  }

  // A rank that has come may be lost before the last one comes.
  void check_presence(size_t rank) {
    std::optional<Guest>& guest = guests_[rank];
    if (!guest) return;
    guest->link.receive();
    if (!guest->link.ended()) return;
    failed_ =
        Status::error(StatusCode::peer_died, "rendezvous: " + guest->member.text(static_cast<int>(rank)) +
                                                 " has ended before all ranks had arrived");
    guest.reset();
  }

  Status out_of_time() const {
    std::string absent;
    for (size_t r = 1; r < guests_.size(); ++r) {
      if (!guests_[r]) absent += (absent.empty() ? "" : ", ") + std::to_string(r);
    }
    return Status::error(StatusCode::timed_out, "rendezvous: these ranks have not arrived within " +
                                                    std::to_string(options_.timeout_ms) + " ms: " + absent +
                                                    note_);
  }

  void reply(Link& link, std::string_view nonce, const Status& status, const std::string& fields) const {
    const Kind kind = status.ok() ? Kind::welcome : Kind::refusal;
    const std::string refusal =
        Writer().number(static_cast<uint32_t>(status.code), 4).text(status.message).done();
    link.send(kind, with_proof(options_, kind, nonce, status.ok() ? fields : refusal));
  }

  const ControlOptions& options_;
  const Socket& listener_;
  const int64_t deadline_;
  std::vector<std::optional<Guest>> guests_;
  std::vector<Stranger> strangers_, refused_;
  std::string note_;  // about strangers, for the time-out
  Status failed_;
};

// The side of another rank: one connection.
class Visit {
 public:
  // no: the process that listens there is not rank 0 of this run, or not yet; `why` says what was seen.
  // doubt: it is like rank 0, but has not proved that it is.
  enum class End { no, doubt, answered };

  Visit(const ControlOptions& options, Link link, int64_t deadline)
      : options_(options), link_(std::move(link)), deadline_(deadline) {}

  // `until`: when it must have spoken.
  End make(int64_t until, Status* out, std::vector<Member>* members, std::string* why) {
    const std::optional<Message> challenge = hear(until);
    if (!challenge && !link_.ended()) return no(why, "says nothing");
    if (!challenge || challenge->kind != Kind::challenge) return no(why, "is no rank 0 of Braid's");
    Reader in(challenge->fields);
    const uint64_t version = in.number(4);
    const std::string_view theirs = in.raw(kNonceBytes);
    if (!in.whole()) return no(why, "is no rank 0 of Braid's");
    if (version != kVersion) {
      *out = Status::error(StatusCode::disagreement, "rendezvous: rank 0 has version " +
                                                         std::to_string(version) + " of the protocol, rank " +
                                                         std::to_string(options_.rank) + " has version " +
                                                         std::to_string(kVersion));
      return End::doubt;
    }
    const Hello hello{options_.run, options_.subject, nonce(), options_.rank, options_.size, this_member()};
    link_.send(Kind::hello, with_proof(options_, Kind::hello, theirs, write(hello)));
    const std::optional<Message> answer = hear(deadline_ + kGraceNs);
    if (!answer) return no(why, link_.ended() ? "does not take this run's ranks" : "does not answer");
    const std::optional<std::string> fields = proved(options_, *answer, hello.nonce);
    if (!fields) {
      *out =
          Status::error(StatusCode::disagreement, "rendezvous: rank " + std::to_string(options_.rank) +
                                                      " and the process that listens at " +
                                                      link_.peer_address() + " do not have the same secret");
      return End::doubt;
    }
    return read_answer(*answer, *fields, out, members) ? End::answered
                                                       : no(why, "does not answer as rank 0 does");
  }
  Link take_link() { return std::move(link_); }

 private:
  static End no(std::string* why, const char* text) {
    *why = std::string("the process that listens there ") + text;
    return End::no;
  }

  std::optional<Message> hear(int64_t until) {
    for (;;) {
      if (std::optional<Message> message = link_.next()) return message;
      if (link_.ended() || !wait_readable(link_.fd(), until)) return std::nullopt;
      link_.receive();
    }
  }

  bool read_answer(const Message& answer, const std::string& fields, Status* out,
                   std::vector<Member>* members) const {
    Reader in(fields);
    if (answer.kind == Kind::refusal) {
      const uint64_t code = in.number(4);
      *out = Status::error(static_cast<StatusCode>(code), in.text());
      return in.whole() && code > 0 && code <= static_cast<uint64_t>(StatusCode::system);
    }
    members->clear();
    for (int r = 0; r < options_.size; ++r)
      members->push_back({static_cast<int64_t>(in.number()), in.text()});
    *out = {};
    return answer.kind == Kind::welcome && in.whole();
  }

  const ControlOptions& options_;
  Link link_;
  const int64_t deadline_;
};

}  // namespace

std::string Member::text(int rank) const {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process) + " on " + host + ")";
}

Member this_member() {
  char host[256] = "?";
  (void)gethostname(host, sizeof host - 1);
  return {getpid(), host};
}

Status collect_ranks(const ControlOptions& options, const Socket& listener, std::vector<Link>* links,
                     std::vector<Member>* members) {
  Reception reception(options, listener);
  const Status status = reception.collect();
  Writer welcome;
  for (size_t r = 0; status.ok() && r < static_cast<size_t>(options.size); ++r) {
    members->push_back(reception.member(r));
    welcome.number(static_cast<uint64_t>(members->back().process)).text(members->back().host);
  }
  reception.answer(status, welcome.done());
  if (status.ok()) *links = reception.take_links();
  return status;
}

Status meet_rank_0(const ControlOptions& options, const Address& address, std::vector<Link>* links,
                   std::vector<Member>* members) {
  const int64_t deadline = monotonic_ns() + options.timeout_ms * kMs;
  int64_t last = deadline;  // for another attempt
  std::string refused, why;
  Status doubt;
  do {
    Socket socket = connect_to(address, deadline, &refused);
    if (socket.fd() >= 0) {
      Visit visit(options, Link(std::move(socket)), deadline);
      Status status;
      std::string seen;
      const int64_t until = std::min(last, monotonic_ns() + kChallengeNs);
      const Visit::End end = visit.make(until, &status, members, &seen);
      if (end == Visit::End::answered) {
        if (status.ok()) links->push_back(visit.take_link());
        return status;
      }
      if (end == Visit::End::doubt) {
        if (doubt.ok()) last = std::min(last, monotonic_ns() + kDoubtNs);
        doubt = status;
      } else if (why.empty() || until < last) {
        why = seen;  // a last visit has less time, and may have seen nothing
      }
    }
    usleep(kAgainUs);
  } while (monotonic_ns() < last);
  if (!doubt.ok()) return doubt;
  return Status::error(StatusCode::timed_out, "rendezvous: rank " + std::to_string(options.rank) +
                                                  " has not reached rank 0 at " + address.text() +
                                                  " within " + std::to_string(options.timeout_ms) +
                                                  " ms: " + (why.empty() ? refused : why));
}

}  // namespace braid::rt::control
