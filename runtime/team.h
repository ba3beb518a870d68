// The threads that compute the steps of an instance.
//
// A parallel loop is a row of chunks, the largest first. Its caller and the workers take chunks from a
// counter until none is left. The caller takes part, and waits only for chunks that were taken. So a worker
// that does not come, because other processes are busy, delays no loop; one that loses its processor within a
// chunk does. Idle workers spin for 0.3 milliseconds, because the next loop often follows at once, and then
// sleep.
//
// A body must give the same bits wherever its loop is cut, and throw nothing.
#pragma once

#include <cstdint>
#include <type_traits>

namespace braid::rt {

// Used by one thread at a time. A loop within a chunk of another runs alone. Safe after a fork: a child has
// none of the workers that had started before, and computes alone.
class Team {
 public:
  // Loops are cut for that many threads, at most 1024, the caller's included. Workers start with the first
  // loop: at most `threads` - 1, and one fewer than the processors that its caller may run on. They compute
  // with the caller's modes of rounding and denormals.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  using Body = void (*)(const void* context, int64_t begin, int64_t end, int thread);
  // Calls body(context, begin, end, thread) for chunks of [0, count): of at least `grain` iterations, if all
  // threads then have one. The longer a loop, the larger the power of two, up to 64, that chunks begin at
  // multiples of, so that vectors are aligned. No two calls at once have the same `thread`, which is below
  // threads().
  void loop(int64_t count, int64_t grain, Body body, const void* context) noexcept;
  // Calls body(context, member, members, thread) at once on the threads that come soon: the caller alone, or
  // up to `most`. Members may wait for each other (wait_for_all).
  void gang(int most, Body body, const void* context) noexcept;
  // For members of a gang: returns when all have called it.
  void wait_for_all(int64_t members) noexcept;

  // The team that loops of this thread use; null: none, and they run alone.
  static Team* current();

 private:
  class Impl;  // generated source includes this header, so it is kept short
  Impl* const impl_;
  const int threads_;
};

// While it lives, loops of this thread use the team; null: they run alone.
class TeamScope {
 public:
  explicit TeamScope(Team* team);
  ~TeamScope();
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  Team* const before_;
};

// The threads of the current team; 1 without a team.
inline int team_threads() {
  const Team* const team = Team::current();
  return team == nullptr ? 1 : team->threads();
}

// Calls f(begin, end) or f(begin, end, thread) for chunks of [0, count) on the current team (Team::loop), or
// for all of it if there is no team or not `parallel`.
template <class F>
inline void parallel_for(int64_t count, bool parallel, const F& f, int64_t grain = 1) {
  const auto body = [](const void* context, int64_t begin, int64_t end, int thread) {
    const F own = *static_cast<const F*>(context);  // a copy, so that captured values stay in registers
    if constexpr (std::is_invocable_v<const F&, int64_t, int64_t, int>)
      own(begin, end, thread);
    else
      own(begin, end);
  };
  Team* const team = parallel && count > 1 ? Team::current() : nullptr;
  if (team != nullptr)
    team->loop(count, grain, body, &f);
  else if (count > 0)
    body(&f, 0, count, 0);
}

// Lets one thread at a time add what it has found to a result that chunks share.
class Merging {
 public:
  void lock();
  void unlock();

 private:
  uint32_t taken_ = 0;
};
class MergingLock {
 public:
  explicit MergingLock(Merging& merging) : merging_(merging) { merging_.lock(); }
  ~MergingLock() { merging_.unlock(); }
  MergingLock(const MergingLock&) = delete;
  MergingLock& operator=(const MergingLock&) = delete;

 private:
  Merging& merging_;
};

}  // namespace braid::rt
