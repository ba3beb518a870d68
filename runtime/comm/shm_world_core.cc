#include "runtime/comm/shm_world_core.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "runtime/comm/process_identity.h"
#include "runtime/comm/shm_channel.h"

namespace braid::rt::shm {
namespace {

// If every rank has a core, spinning for some tens of microseconds saves the two system calls of a sleep. If
// ranks share cores, spinning only keeps the peer from running.
constexpr int kSpinsOwnCore = 2000;
constexpr int kSpinsSharedCore = 100;

// The cores that this thread may run on, as bits.
void read_affinity(uint64_t (&cores)[kCoreWords]) {
  static_assert(sizeof(cpu_set_t) == sizeof cores);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) std::memcpy(cores, &set, sizeof cores);
}

}  // namespace

WorldCore::WorldCore(std::shared_ptr<Arena> arena, int rank)
    : arena_(std::move(arena)),
      rank_(rank),
      abort_(&arena_->header().abort),
      own_line_(&arena_->rank_line(rank)),
      peer_memory_(*arena_, rank) {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0) {
    arena_->header().no_membarrier.store(1);
  }
  const ProcessIdentity self = current_process();
  own_line_->pid = self.pid;
  own_line_->start_time = self.start_time;
  own_line_->pid_namespace = self.pid_namespace;
  read_affinity(own_line_->cores);
  own_line_->state.store(static_cast<uint32_t>(RankState::attached));
}

// Launchers may bind each rank to a core of its own, so the number of cores of all ranks together counts.
int WorldCore::spins() {
  if (spins_ != 0) return spins_;
  uint64_t all[kCoreWords] = {};
  for (int peer = 0; peer < size(); ++peer) {
    const RankLine& line = arena_->rank_line(peer);
    if (static_cast<RankState>(line.state.load()) == RankState::absent) return kSpinsSharedCore;
    for (int word = 0; word < kCoreWords; ++word) all[word] |= line.cores[word];
  }
  int cores = 0;
  for (const uint64_t word : all) cores += std::popcount(word);
  spins_ = size() <= cores ? kSpinsOwnCore : kSpinsSharedCore;
  return spins_;
}

WorldCore::~WorldCore() {
  own_line_->state.store(static_cast<uint32_t>(RankState::left));
  for (int peer = 0; peer < size(); ++peer) ring({&peer, 1});
}

Status WorldCore::fail(StatusCode code, const std::string& reason) {
  uint32_t none = 0;
  if (abort_->state.compare_exchange_strong(none, 1)) {
    abort_->code = static_cast<uint32_t>(code);
    const std::string text = "rank " + std::to_string(rank_) + ": " + reason;
    const size_t length = std::min(text.size(), sizeof abort_->reason - 1);
    std::memcpy(abort_->reason, text.data(), length);
    abort_->reason[length] = '\0';
    abort_->state.store(2);
    for (int peer = 0; peer < size(); ++peer) {
      RankLine& line = arena_->rank_line(peer);
      line.bell.fetch_add(1);
      futex_wake_all(line.bell);
    }
  }
  return failure();
}

Status WorldCore::failure() const {
  // The writer is between two stores; if it dies there, the text is lost but not the error.
  const int64_t give_up = monotonic_ns() + 1'000'000'000;
  while (abort_->state.load(std::memory_order_acquire) != 2) {
    if (monotonic_ns() > give_up)
      return Status::error(StatusCode::aborted, "a peer died while it reported an error");
    std::this_thread::yield();
  }
  return Status::error(static_cast<StatusCode>(abort_->code), abort_->reason);
}

void WorldCore::ring(std::span<const int> ranks) {
  for (const int peer : ranks) {
    if (peer == rank_) continue;
    RankLine& line = arena_->rank_line(peer);
    const uint32_t sleep_on = line.sleep_on.load();
    if (sleep_on == kAwake) continue;
    if (sleep_on != kAnyone && sleep_on != kFirstRank + static_cast<uint32_t>(rank_)) continue;
    line.bell.fetch_add(1);
    futex_wake_all(line.bell);
  }
}

// Every running thread of the ranks' processes passes a full memory barrier before this returns.
void WorldCore::barrier_on_all_ranks() const {
  if (light_flags()) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

bool WorldCore::progress_channels() {
  bool unfinished = false;
  for (Channel* channel : channels_) {
    if (channel->idle()) continue;
    channel->progress();
    unfinished = unfinished || !channel->idle();
  }
  return unfinished;
}

bool WorldCore::unfinished() const {
  return std::ranges::any_of(channels_, [](const Channel* channel) { return !channel->idle(); });
}

// A worker without unfinished collectives is woken only by its own rank.
uint32_t WorldCore::announce_sleep(bool for_news) {
  const uint32_t bell = own_line_->bell.load();
  own_line_->sleep_on.store(for_news ? kAnyone : kAwake);
  if (for_news) barrier_on_all_ranks();
  return bell;
}

bool WorldCore::progress_has_news() {
  uint64_t before = 0, after = 0;
  for (const Channel* channel : channels_) before += channel->progress_mark();
  progress_channels();
  for (const Channel* channel : channels_) after += channel->progress_mark();
  return before != after;
}

void WorldCore::wake_self() {
  own_line_->bell.fetch_add(1);
  futex_wake_all(own_line_->bell);
}

// A collective that a peer has called and this rank has not.
std::string WorldCore::unanswered(int peer) const {
  for (const Channel* channel : channels_) {
    if (std::string text = channel->unanswered(peer); !text.empty()) return text;
  }
  return {};
}

WorldCore::Health WorldCore::check_health(int peer) const {
  const RankLine& line = arena_->rank_line(peer);
  const std::string name = "rank " + std::to_string(peer);
  switch (static_cast<RankState>(line.state.load())) {
    case RankState::absent:
      return {};
    case RankState::left:
      if (const std::string text = unanswered(peer); !text.empty())
        return {StatusCode::disagreement, name + " has left after " + text};
      return {StatusCode::peer_left, name + " has left"};
    case RankState::attached:
      break;
  }
  if (maybe_alive({line.pid, line.start_time, line.pid_namespace})) return {};
  return {StatusCode::peer_died, name + " (process " + std::to_string(line.pid) + ") has died"};
}

}  // namespace braid::rt::shm
