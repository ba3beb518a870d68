#include "runtime/comm/control_channel.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/comm/futex.h"

namespace braid::rt {

using control::Kind;
using control::Link;
using control::Message;
using control::Reader;
using control::Writer;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kBeatsOfSilence = 10;

std::string seconds(int64_t ns) {
  const int64_t tenths = ns / (100 * kMs);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string place(uint64_t progress) {
  if (progress == 0) return "is not ready for its first step";
  if (progress == ControlChannel::kFinished) return "has finished";
  return "has issued " + std::to_string(progress - 1) + (progress == 2 ? " step" : " steps");
}

}  // namespace

ControlChannel::ControlChannel(const ControlOptions& options, std::vector<Link> links,
                               std::vector<control::Member> members)
    : options_(options),
      // A silent rank is known well before the ranks that wait for it give up.
      beat_ns_(std::clamp<int64_t>(options.timeout_ms * kMs / 2 / kBeatsOfSilence, 5 * kMs, 200 * kMs)),
      silence_ns_(kBeatsOfSilence * beat_ns_),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      links_(std::move(links)) {
  for (control::Member& member : members) peers_.push_back({.member = std::move(member)});
  // The process's signals are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Status ControlChannel::host(const ControlOptions& options, const Socket& listener,
                            std::unique_ptr<ControlChannel>* out) {
  std::vector<Link> links;
  std::vector<control::Member> members;
  Status met = control::collect_ranks(options, listener, &links, &members);
  if (met.ok()) out->reset(new ControlChannel(options, std::move(links), std::move(members)));
  return met;
}

Status ControlChannel::join(const ControlOptions& options, const control::Address& address,
                            std::unique_ptr<ControlChannel>* out) {
  std::vector<Link> links;
  std::vector<control::Member> members;
  Status met = control::meet_rank_0(options, address, &links, &members);
  if (met.ok()) out->reset(new ControlChannel(options, std::move(links), std::move(members)));
  return met;
}

ControlChannel::~ControlChannel() {
  leave();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void ControlChannel::wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.fd(), &one, sizeof one);
}

void ControlChannel::serve() {
  int64_t last = monotonic_ns(), next_beat = last;
  for (;;) {
    wait_for_sockets();
    const std::lock_guard lock(mutex_);
    const int64_t now = monotonic_ns();
    pass_time(std::min(now - last, 2 * beat_ns_));
    last = now;
    for (size_t k = 0; k < links_.size(); ++k) hear(k);
    if (now >= next_beat && !said_bye_) {
      tell();
      next_beat = now + beat_ns_;
    }
    for (Link& link : links_) link.flush();
    changed_.notify_all();
    if (stop_) return;
  }
}

void ControlChannel::wait_for_sockets() {
  std::vector<pollfd> sockets = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
  {
    const std::lock_guard lock(mutex_);
    for (const Link& link : links_) {
      const short events = static_cast<short>(POLLIN | (link.pending() ? POLLOUT : 0));
      if (!link.ended()) sockets.push_back({.fd = link.fd(), .events = events, .revents = 0});
    }
  }
  poll(sockets.data(), sockets.size(), static_cast<int>(std::max<int64_t>(beat_ns_ / kMs, 1)));
  uint64_t ignored = 0;
  (void)!read(wake_.fd(), &ignored, sizeof ignored);
}

// Only rank 0 hears all others; they learn the rest from it.
void ControlChannel::pass_time(int64_t ns) {
  for (size_t r = rank() == 0 ? 1 : 0; r < links_.size(); ++r) peers_[r].silent_ns += ns;
}

// `link`: its index is that of the rank at the other end.
void ControlChannel::hear(size_t link) {
  if (links_[link].fd() < 0) return;
  Peer& peer = peers_[link];
  const bool before = absent(peer);
  links_[link].receive();
  while (const std::optional<Message> message = links_[link].next()) take(link, *message);
  if (links_[link].ended() && peer.life == Life::present) peer.life = Life::ended;
  // The others need not wait for the next beat to learn of it.
  if (rank() == 0 && absent(peer) && !before && !said_bye_) tell();
}

void ControlChannel::take(size_t from, const Message& message) {
  Peer& peer = peers_[from];
  peer.silent_ns = 0;
  Reader in(message.fields);
  if (message.kind == Kind::bye) {
    peer.life = static_cast<Life>(std::clamp<uint64_t>(in.number(1), 1, static_cast<uint64_t>(Life::failed)));
    peer.error = in.text();
  } else if (message.kind == Kind::beat && rank() == 0) {
    const uint64_t progress = in.number();
    peer.device = in.number();
    if (std::exchange(peer.progress, progress) != progress && !said_bye_) tell();
  } else if (message.kind == Kind::roster && rank() != 0) {
    take_roster(message.fields);
  } else if (message.kind == Kind::data && rank() != 0) {
    data_.push_back(message.fields);
  }
}

std::string ControlChannel::roster() const {
  Writer out;
  for (const Peer& peer : peers_) {
    out.number(static_cast<uint64_t>(peer.life), 1)
        .number(peer.progress)
        .number(peer.device)
        .number(static_cast<uint64_t>(peer.silent_ns))
        .text(peer.error);
  }
  return out.done();
}

void ControlChannel::take_roster(const std::string& fields) {
  Reader in(fields);
  std::vector<Peer> told = peers_;
  for (Peer& peer : told) {
    peer.life = static_cast<Life>(std::min<uint64_t>(in.number(1), static_cast<uint64_t>(Life::ended)));
    peer.progress = in.number();
    peer.device = in.number();
    peer.silent_ns = static_cast<int64_t>(in.number());
    peer.error = in.text();
  }
  if (!in.whole()) return;
  for (size_t r = 0; r < peers_.size(); ++r) {
    // A rank's knowledge of itself is newer.
    if (r == static_cast<size_t>(rank())) continue;
    if (r == 0) told[r].life = std::max(told[r].life, peers_[r].life), told[r].silent_ns = 0;
    peers_[r] = std::move(told[r]);
  }
}

// Sends this rank's state to rank 0; rank 0 sends the state of all ranks.
void ControlChannel::tell() {
  if (rank() == 0) {
    const std::string all = roster();
    for (Link& link : links_) {
      if (link.fd() >= 0 && !link.pending()) link.send(Kind::roster, all);  // the newest is enough
    }
  } else if (!links_[0].pending()) {
    const Peer& self = peers_[static_cast<size_t>(rank())];
    links_[0].send(Kind::beat, Writer().number(self.progress).number(self.device).done());
  }
}

void ControlChannel::send_to_all(Kind kind, const std::string& fields) {
  for (Link& link : links_) {
    if (link.fd() >= 0) link.send(kind, fields);
  }
}

Status ControlChannel::broadcast(std::span<std::byte> data) {
  std::unique_lock lock(mutex_);
  if (rank() == 0) {
    send_to_all(Kind::data, std::string(reinterpret_cast<const char*>(data.data()), data.size()));
    wake();
    return {};
  }
  const auto limit = std::chrono::milliseconds(options_.timeout_ms);
  changed_.wait_for(lock, limit, [&] { return !data_.empty() || peers_[0].life != Life::present; });
  if (data_.empty()) {
    std::string text;
    (void)count_missing(true, &text);
    return Status::error(StatusCode::peer_died, "nothing has come from rank 0: " + text);
  }
  const std::string got = std::move(data_.front());
  data_.pop_front();
  if (got.size() != data.size())
    return Status::error(StatusCode::disagreement, "rank 0 has sent " + std::to_string(got.size()) +
                                                       " bytes, not " + std::to_string(data.size()));
  std::copy_n(reinterpret_cast<const std::byte*>(got.data()), got.size(), data.begin());
  return {};
}

void ControlChannel::reached(uint64_t progress) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank())].progress = progress;
}

void ControlChannel::device_at(uint64_t step, uint64_t collectives) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank())].device = kStepUnit * step + 1 + std::min(collectives, kMostCollectives);
}

Status ControlChannel::await_all(uint64_t progress, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto someone_lost = [&] {
    return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& each) { return absent(each); });
  };
  const auto all_there = [&] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [&](const Peer& each) { return each.progress >= progress; });
  };
  tell();
  const auto too_silent = [&] {
    return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& each) {
      return silent(each) && each.silent_ns > options_.timeout_ms * kMs;
    });
  };
  const auto over = [&] { return all_there() || someone_lost() || too_silent(); };
  if (timeout_ms < 0)
    changed_.wait(lock, over);
  else
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), over);
  if (all_there()) return {};
  std::string text;
  (void)count_missing(!someone_lost(), &text);
  return Status::error(someone_lost() ? StatusCode::peer_died : StatusCode::timed_out, text);
}

bool ControlChannel::lost() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& each) { return absent(each); });
}

int ControlChannel::missing(bool overdue, std::string* text) {
  std::unique_lock lock(mutex_);
  tell();
  // A collective may fail before this rank knows that its peer has ended, and a rank that is behind may soon
  // be silent.
  changed_.wait_for(lock, std::chrono::nanoseconds(silence_ns_ + 4 * beat_ns_), [&] {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const Peer& each) { return each.life > Life::gave_up || silent(each); });
  });
  return count_missing(overdue, text);
}

int ControlChannel::count_missing(bool overdue, std::string* text) const {
  std::string named, gone;
  int named_count = 0, gone_count = 0;
  const auto add = [](std::string& list, int& count, const std::string& entry) {
    list += (list.empty() ? "" : "; ") + entry;
    ++count;
  };
  for (size_t r = 0; r < peers_.size(); ++r) {
    const Peer& peer = peers_[r];
    const std::string who = peer.member.text(static_cast<int>(r)) + " ";
    if (peer.life == Life::failed) {
      add(named, named_count, who + "has failed: " + peer.error);
    } else if (peer.life == Life::ended) {
      add(named, named_count, who + "has ended");
    } else if (silent(peer)) {
      add(named, named_count, who + "has sent nothing for " + seconds(peer.silent_ns));
    } else if (peer.life != Life::present && r != static_cast<size_t>(rank())) {
      add(gone, gone_count, who + (peer.life == Life::left ? "has finished" : "has given up: " + peer.error));
    }
  }
  // Ranks that are behind may wait for a lost one themselves, and those that have given up have done so.
  if (named_count > 0) return *text = named, named_count;
  std::string behind;
  const int behind_count = overdue ? count_behind(&behind) : 0;
  if (behind_count != 0 || gone_count == 0)
    return *text = overdue ? behind : "all ranks answer", behind_count;
  return *text = gone, gone_count;
}

// Counts the ranks that are behind, when all ranks answer. All ranks have the same collectives in the same
// order, so the rank that is least far waits for none of the others; those in between may wait for it. A
// device's place says more than the steps that its host has issued, because the host may run ahead.
int ControlChannel::count_behind(std::string* text) const {
  const bool devices = std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.device > 0 || peer.progress == kFinished;
  });
  const auto far = [&](const Peer& peer) {
    return std::pair(peer.progress == kFinished ? UINT64_MAX : devices ? peer.device : 0, peer.progress);
  };
  const Peer *least = nullptr, *most = nullptr;
  uint64_t issued = 0;  // by the rank that has issued most
  for (const Peer& peer : peers_) {
    issued = std::max(issued, peer.progress);
    if (most == nullptr || far(*most) < far(peer)) most = &peer;
    // A rank that has given up waited for another one.
    if (peer.life != Life::gave_up && (least == nullptr || far(peer) < far(*least))) least = &peer;
  }
  if (least == nullptr || far(*least) == far(*most)) {
    *text = "all ranks answer, and each " + place(issued);
    if (devices && most->device > 0) *text += ", and its device is " + device_place(most->device);
    return 0;
  }
  std::string how;
  if (least->progress == issued) {
    how = "has issued as much as others, but its device is " + device_place(least->device) +
          (most->device > 0 ? ", others " + device_place(most->device) : "");
  } else {
    how = place(least->progress);
    if (issued == kFinished)
      how += ", others have finished";
    else if (issued > 1)
      how += ", others " + std::to_string(issued - 1);
  }
  int count = 0;
  bool self = false;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (far(peers_[r]) != far(*least) || peers_[r].life == Life::gave_up) continue;
    if (r == static_cast<size_t>(rank())) {
      self = true;
      continue;
    }
    if (count++ == 0) text->clear();
    *text += (count > 1 ? "; " : "") + peers_[r].member.text(static_cast<int>(r)) + " " + how;
  }
  if (count > 0) return count;
  *text = self ? "the others wait for this rank, which " + how : "all ranks answer";
  return self ? -1 : 0;
}

std::string ControlChannel::device_place(uint64_t device) {
  const uint64_t step = (device - 1) / kStepUnit, collectives = (device - 1) % kStepUnit;
  const std::string of = " of step " + std::to_string(step);
  if (step == 0) return "before the first step";
  if (collectives == 0) return "before the first collective" + of;
  if (collectives == kMostCollectives) return "at the end" + of;
  return "at collective " + std::to_string(collectives) + of;
}

void ControlChannel::leave(const std::string& error, bool consequence) {
  std::unique_lock lock(mutex_);
  if (std::exchange(left_, true)) return;
  Peer& self = peers_[static_cast<size_t>(rank())];
  self.life = error.empty() ? Life::left : consequence ? Life::gave_up : Life::failed;
  self.error = error;
  if (rank() == 0) {
    tell();
    changed_.wait_for(lock, std::chrono::milliseconds(options_.timeout_ms), [&] {
      return std::all_of(peers_.begin(), peers_.end(),
                         [&](const Peer& each) { return each.life != Life::present || silent(each); });
    });
  }
  send_to_all(Kind::bye, Writer().number(static_cast<uint64_t>(self.life), 1).text(error).done());
  said_bye_ = true;
  wake();
  constexpr auto kMostForBye = std::chrono::seconds(1);
  changed_.wait_for(lock, kMostForBye, [&] {
    return std::none_of(links_.begin(), links_.end(), [](const Link& link) { return link.pending(); });
  });
}

}  // namespace braid::rt
