#include "runtime/team.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/processor.h"
#include "runtime/sleep_word.h"
#include "runtime/waiting_place.h"

namespace braid::rt {
namespace {

// Nanoseconds of spinning. A loop follows another within some ten microseconds in most steps. Longer spinning
// takes the processor from other processes, and then from the caller, which the system gives no more than its
// share.
constexpr int64_t kIdleSpin = 300'000;
constexpr int64_t kFinishSpin = 50'000;    // a chunk lasts about as long
constexpr int64_t kBarrierSpin = 300'000;  // waking a thread takes longer than a step of a recurrence
constexpr int64_t kJoinTime = 80'000;      // in which a worker that sleeps can come
constexpr int kMostThreads = 1024;
constexpr int64_t kTurnEighths[] = {4, 2, 1, 1};
constexpr int kTurns = 4;

thread_local Team* current_team = nullptr;

#ifdef __x86_64__
// Without the flags of what has happened.
uint32_t float_control() { return __builtin_ia32_stmxcsr() & ~0x3fu; }
void set_float_control(uint32_t control) { __builtin_ia32_ldmxcsr(control); }
#else
uint32_t float_control() { return 0; }
void set_float_control(uint32_t) {}
#endif

constexpr uint64_t state_of(uint32_t job, int parts, int taken) {
  return uint64_t{job} << 32 | static_cast<uint64_t>(parts) << 16 | static_cast<uint64_t>(taken);
}
constexpr int parts_of(uint64_t state) { return static_cast<int>(state >> 16 & 0xffff); }
constexpr int taken_of(uint64_t state) { return static_cast<int>(state & 0xffff); }

}  // namespace

class Team::Impl {
 public:
  explicit Impl(int threads) : threads_(threads) {}

  bool has_workers();
  void loop(int64_t count, int64_t grain, Body body, const void* context);
  void gang(int most, Body body, const void* context);
  void wait_for_all(int64_t members);

 private:
  class Workers;
  // One parallel loop, or a gang, whose parts are its members.
  struct Job {
    Body body = nullptr;
    const void* context = nullptr;
    int64_t count = 0, grain = 1;
    bool gang = false;
    uint32_t floats = float_control();  // of the caller: rounding, denormals
  };

  void post(const Job& job, int parts, int taken);
  bool take(int* part);
  void run_part(int part, int thread);
  int run_parts(int thread);
  void wait_for(int parts);
  int64_t begin_of(int part) const;

  const int threads_;
  Job job_;
  // Number of the job (32 bits), its parts (16 bits), and how many of them are taken (16 bits).
  alignas(64) std::atomic<uint64_t> state_ = 0;
  SleepWord posted_;    // the number of the last job
  SleepWord finished_;  // parts of this job
  SleepWord members_;   // of the gang; 0: not known yet
  std::atomic<uint32_t> arrived_ = 0;
  SleepWord round_;  // times that all members have arrived
  std::unique_ptr<Workers> workers_;
};

class Team::Impl::Workers {
 public:
  explicit Workers(Impl& team)
      : team_(team),
        process_(getpid()),
        places_(new WaitingPlace[static_cast<std::size_t>(team.threads_)]),
        threads_(new std::vector<std::thread>) {
    // Signals of the process are left to its other threads. What a thread itself causes cannot be.
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int count = std::min(team.threads_, processors_of_this_thread()) - 1;
    try {
      threads_->reserve(static_cast<std::size_t>(std::max(count, 0)));
      for (int k = 1; k <= count; ++k) threads_->emplace_back([this, k] { work(k); });
    } catch (const std::exception&) {
      // Those that could be started do the work.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Workers() {
    // The child of a fork has none of the threads.
    if (getpid() != process_) {
      static_cast<void>(threads_.release());
      return;
    }
    stops_.store(true);
    team_.posted_.add(1);
    for (std::thread& t : *threads_) t.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return static_cast<int>(threads_->size()); }

  // Before a job is posted. The child of a fork leaves the threads of its parent alone.
  void make_way() {
    const int here = sched_getcpu();
    for (std::size_t k = 0; k < threads_->size(); ++k) {
      if (places_[k].is_at(here) && getpid() == process_)
        places_[k].keep_off(here, (*threads_)[k].native_handle());
    }
  }

 private:
  void work(int thread) {
    pthread_setname_np(pthread_self(), "braid-team");
    WaitingPlace& place = places_[thread - 1];
    for (uint32_t seen = 0;;) {
      place.note();
      seen = team_.posted_.wait_while(seen, kIdleSpin);
      place.release();
      if (stops_.load()) return;
      const int finished = team_.run_parts(thread);
      if (finished > 0) team_.finished_.add(static_cast<uint32_t>(finished));
    }
  }

  Impl& team_;
  const pid_t process_;
  std::atomic<bool> stops_ = false;
  const std::unique_ptr<WaitingPlace[]> places_;
  std::unique_ptr<std::vector<std::thread>> threads_;
};

Team::Team(int threads)
    : impl_(new Impl(std::clamp(threads, 1, kMostThreads))), threads_(std::clamp(threads, 1, kMostThreads)) {}
Team::~Team() { delete impl_; }

Team* Team::current() { return current_team; }
void Team::loop(int64_t count, int64_t grain, Body body, const void* context) noexcept {
  const TeamScope none(nullptr);
  impl_->loop(count, grain, body, context);
}
void Team::gang(int most, Body body, const void* context) noexcept { impl_->gang(most, body, context); }
void Team::wait_for_all(int64_t members) noexcept { impl_->wait_for_all(members); }

TeamScope::TeamScope(Team* team) : before_(current_team) { current_team = team; }
TeamScope::~TeamScope() { current_team = before_; }

bool Team::Impl::has_workers() {
  if (threads_ == 1) return false;
  if (!workers_) workers_ = std::make_unique<Workers>(*this);
  return workers_->count() > 0;
}

void Team::Impl::loop(int64_t count, int64_t grain, Body body, const void* context) {
  if (count <= 1 || !has_workers()) {
    if (count > 0) body(context, 0, count, 0);
    return;
  }
  grain = std::clamp<int64_t>(grain, 1, (count + threads_ - 1) / threads_);
  const int parts =
      static_cast<int>(std::min<int64_t>((count + grain - 1) / grain, int64_t{kTurns} * threads_));
  post({body, context, count, grain, false}, parts, 0);
  finished_.add(static_cast<uint32_t>(run_parts(0)));
  wait_for(parts);
}

void Team::Impl::wait_for(int parts) {
  for (uint32_t now = finished_.get(); now != static_cast<uint32_t>(parts);)
    now = finished_.wait_while(now, kFinishSpin);
}

// The chunks of each turn of all threads are half of what is left, those of the last turn all of it.
int64_t Team::Impl::begin_of(int part) const {
  const int64_t count = (job_.count + job_.grain - 1) / job_.grain, threads = threads_;
  const auto begin_of_unit = [&](int64_t unit) { return std::min(unit * job_.grain, job_.count); };
  if (count <= kTurns * threads) return begin_of_unit(part);
  int64_t eighths = 0, left = part;  // of a thread's share
  for (const int64_t size : kTurnEighths) {
    eighths += size * std::min(left, threads);
    left -= std::min(left, threads);
  }
  if (eighths == 8 * threads) return job_.count;
  const int64_t smallest = count / (8 * threads);
  const int64_t aligned =
      std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(smallest / 8))), 1, 64);
  const int64_t begin = smallest * eighths + count % (8 * threads) * eighths / (8 * threads);
  return begin_of_unit(begin / aligned * aligned);
}

void Team::Impl::gang(int most, Body body, const void* context) {
  const int wanted = has_workers() ? std::min({most, threads_, workers_->count() + 1}) : 1;
  if (wanted <= 1) return body(context, 0, 1, 0);
  members_.reset(0);
  arrived_.store(0, std::memory_order_relaxed);
  post({body, context, 0, 1, true}, wanted, 1);
  for (const int64_t until = monotonic_ns() + kJoinTime;
       taken_of(state_.load(std::memory_order_relaxed)) < wanted && monotonic_ns() < until;)
    cpu_pause();
  // Workers that have not come by now are left out.
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (!state_.compare_exchange_weak(state, state | state_of(0, 0, 0xffff), std::memory_order_acq_rel)) {
  }
  const int members = taken_of(state);
  if (members == 1) return body(context, 0, 1, 0);  // its loops have the team
  const TeamScope none(nullptr);
  members_.set(static_cast<uint32_t>(members));
  body(context, 0, members, 0);
  finished_.add(1);
  wait_for(members);
}

void Team::Impl::wait_for_all(int64_t members) {
  const uint32_t round = round_.get();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < members) {
    round_.wait_while(round, kBarrierSpin);
    return;
  }
  arrived_.store(0, std::memory_order_relaxed);
  round_.set(round + 1);
}

// All parts of the job before are finished, so no worker reads job_.
void Team::Impl::post(const Job& job, int parts, int taken) {
  job_ = job;
  finished_.reset(0);
  workers_->make_way();
  const uint32_t number = posted_.get() + 1;
  state_.store(state_of(number, parts, taken), std::memory_order_release);
  posted_.set(number);
}

bool Team::Impl::take(int* part) {
  uint64_t state = state_.load(std::memory_order_acquire);
  do {
    *part = taken_of(state);
    if (*part >= parts_of(state)) return false;
  } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
  return true;
}

void Team::Impl::run_part(int part, int thread) {
  if (thread != 0 && float_control() != job_.floats) set_float_control(job_.floats);
  if (job_.gang) {
    uint32_t members = members_.get();
    if (members == 0) members = members_.wait_while(0, kJoinTime);
    job_.body(job_.context, part, members, thread);
    return;
  }
  const int64_t begin = begin_of(part), end = begin_of(part + 1);
  if (begin < end) job_.body(job_.context, begin, end, thread);
}

// Returns how many parts it has run. They count as finished when the caller says so.
int Team::Impl::run_parts(int thread) {
  int count = 0;
  for (int part; take(&part); ++count) run_part(part, thread);
  return count;
}

void Merging::lock() {
  const std::atomic_ref<uint32_t> taken(taken_);
  while (taken.exchange(1, std::memory_order_acquire) != 0) std::this_thread::yield();
}
void Merging::unlock() { std::atomic_ref<uint32_t>(taken_).store(0, std::memory_order_release); }

}  // namespace braid::rt
