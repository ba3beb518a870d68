// Shared by all channels of one rank: the peers, sleeping and waking, and how an error reaches all ranks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/futex.h"
#include "runtime/comm/peer_memory.h"
#include "runtime/comm/shm_arena.h"
#include "runtime/comm/shm_layout.h"
#include "runtime/comm/shm_waiting.h"

namespace braid::rt::shm {

class Channel;

// The result of a poll: finished, the World has failed, or the world rank that it waits for.
inline constexpr int kReady = -1;
inline constexpr int kFailed = -2;

inline constexpr int64_t kSleepNs = 20'000'000;         // longest sleep between two polls
inline constexpr int64_t kIdleSleepNs = 1'000'000'000;  // of a worker that has nothing to do

class WorldCore {
 public:
  WorldCore(std::shared_ptr<Arena> arena, int rank);
  ~WorldCore();
  WorldCore(const WorldCore&) = delete;
  WorldCore& operator=(const WorldCore&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(arena_->header().size); }
  Arena& arena() { return *arena_; }
  std::byte* segment(int rank) const { return arena_->segment(rank); }
  size_t segment_bytes() const { return arena_->header().segment_bytes; }

  // Whether ranks may read each other's ordinary memory, and whether this one can read (or write) a peer's.
  bool reads_peers() const { return arena_->header().peer_reads != 0; }
  bool reachable(int peer) { return peer_memory_.reachable(peer); }
  int64_t pid(int peer) const { return arena_->rank_line(peer).pid; }

  // Reports an error. The first error on any rank wins and is returned.
  Status fail(StatusCode code, const std::string& reason);
  bool failed() const { return abort_->state.load(std::memory_order_acquire) != 0; }
  Status failure() const;

  // Bytes of inputs that went through staging memory.
  void count_staged(uint64_t bytes) { staged_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t staged_bytes() const { return staged_bytes_.load(std::memory_order_relaxed); }

  // A rank announces news by storing a flag with store_flag and then calling ring(), which wakes those of
  // `ranks` that sleep until this rank has news. No wake-up is lost: a sleeper first announces that it
  // sleeps, then polls once more; the other side first stores, then checks for sleepers. This needs a full
  // barrier between the two steps on each side. Sleeping is rare and storing is not, so the sleeper pays for
  // both with membarrier(2) if the kernel has it: a full barrier here would wait until the peer's cache has
  // given up the line, just when we want to read the peer's.
  void store_flag(std::atomic<uint32_t>& flag, uint32_t value) {
    if (light_flags()) {
      flag.store(value, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      flag.store(value);
    }
  }
  void ring(std::span<const int> ranks);

  // Adds a channel, on whose unfinished collectives a blocked wait elsewhere makes progress.
  void add_channel(Channel* channel) { channels_.push_back(channel); }

  // Calls wait.poll until it returns kReady or kFailed: first spinning, then sleeping between polls.
  // Meanwhile advances the other channels and checks the health of the rank that poll waits for and the
  // time-out. A Wait has:
  //   int poll()               kReady, kFailed, or the rank that it waits for
  //   bool started(int rank)   whether that rank has started its part
  //   std::string call()       what is waited for
  //   std::string missing()    the same, with the missing ranks
  template <typename Wait>
  Status block_until(Wait wait);

  // For the worker, which holds its lock for all except the last two.
  bool progress_channels();  // true if any channel has unfinished collectives
  bool unfinished() const;
  uint32_t announce_sleep(bool for_news);  // returns the bell's value to sleep on; poll again before sleeping
  bool progress_has_news();                // makes progress; true if some collective advanced
  void sleep_on_bell(uint32_t bell, bool for_news) {
    futex_wait(own_line_->bell, bell, for_news ? kSleepNs : kIdleSleepNs);
  }
  void wake_self();

 private:
  std::atomic<uint64_t> staged_bytes_{0};
  struct Health {
    StatusCode code = StatusCode::ok;
    std::string what;
  };
  Health check_health(int peer) const;
  std::string unanswered(int peer) const;
  int spins();  // polls before the first sleep
  RankLine& own_line() const { return *own_line_; }
  bool light_flags() const { return arena_->header().no_membarrier.load(std::memory_order_relaxed) == 0; }
  void barrier_on_all_ranks() const;

  std::shared_ptr<Arena> arena_;
  int rank_;
  int spins_ = 0;  // 0: not all ranks have arrived yet
  AbortRecord* abort_;
  RankLine* own_line_;
  PeerMemory peer_memory_;
  std::vector<Channel*> channels_;
};

inline constexpr int64_t kHealthCheckNs = 50'000'000;  // between two checks of a peer's process
inline constexpr int kBusySpins = 64;                  // polls before the first pause instruction

template <typename Wait>
Status WorldCore::block_until(Wait wait) {
  int missing = kReady;
  for (int spin = 0, limit = spins(); spin < limit; ++spin) {
    missing = wait.poll();
    if (missing == kReady) return {};
    if (missing == kFailed || failed()) return failure();
    if (spin >= kBusySpins) cpu_pause();
  }
  const int64_t begin = monotonic_ns();
  const int64_t deadline = begin + arena_->timeout_ms() * 1'000'000;
  int64_t next_check = begin + kHealthCheckNs;
  RankLine& line = own_line();
  Waiting waiting(*arena_, rank_);
  for (;;) {
    const uint32_t bell = line.bell.load();
    const bool others = progress_channels();
    const int expected = missing;
    line.sleep_on.store(others ? kAnyone : kFirstRank + static_cast<uint32_t>(expected));
    barrier_on_all_ranks();
    missing = wait.poll();
    if (missing == expected && !failed()) futex_wait(line.bell, bell, kSleepNs);
    line.sleep_on.store(kAwake, std::memory_order_relaxed);
    if (missing != kReady) missing = wait.poll();
    if (missing == kReady) return {};
    if (missing == kFailed || failed()) return failure();
    const int64_t now = monotonic_ns();
    if (now > deadline) {
      return fail(StatusCode::timed_out, "timed out after " + std::to_string(arena_->timeout_ms()) +
                                             " ms in " + wait.missing() +
                                             chain_of_waits(*arena_, rank_, missing));
    }
    if (now > next_check) {
      next_check = now + kHealthCheckNs;
      const auto state = static_cast<RankState>(arena_->rank_line(missing).state.load());
      if (state != RankState::attached)
        missing = wait.poll();  // it may have finished its part before leaving
      if (missing < 0) return missing == kReady ? Status{} : failure();
      if (const Health health = check_health(missing); health.code != StatusCode::ok)
        return fail(health.code, health.what + ", in " + wait.missing());
      waiting.look(missing, !wait.started(missing), [&] { return wait.call(); });
      if (const std::string circle = waiting.circle(); !circle.empty())
        return fail(StatusCode::disagreement, circle);
    }
  }
}

}  // namespace braid::rt::shm
