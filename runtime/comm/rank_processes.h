// Supervises ranks that are children of this process: reports how each has ended and ensures that all end in
// time. Both launchers use it: launch_processes(), whose ranks are functions, and RankPrograms, whose ranks
// are programs.
//
// A rank that computes may be silent for any time. It is killed and named if the run waits for it and
//   - it is stopped (SIGSTOP, an abandoned debugger) and the run has failed, or it has been stopped for twice
//     the time-out: by then the ranks that wait for it have reported it;
//   - it still runs one time-out and a little after the run has failed, that is, a rank has ended with an
//     error, or ranks have said so. By then it has timed out on its peers as well.
// Time counts only while this process runs, so suspending all of them is harmless.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/status.h"

namespace braid::rt {

// The facts of the run that the supervisor needs.
class SupervisedRun {
 public:
  virtual ~SupervisedRun() = default;
  virtual int64_t timeout_ms() const = 0;
  // Whether ranks have said that the run has failed; `some_ended`: a rank has ended.
  virtual bool failed(bool some_ended) const = 0;
  virtual bool has_left(int rank) const = 0;  // it may end now
  virtual bool waits_for(
      int rank) const = 0;  // false: the rank is idle and may do so for any time, even stopped
};

class RankProcesses {
 public:
  explicit RankProcesses(const SupervisedRun& run) : run_(run) {}
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void add(pid_t process);  // of the next rank
  // Ends the run: kills all ranks that still run.
  void kill_all();
  // Returns when all have ended, with endings() as the error.
  Status wait();

  // One step of wait(): returns false if all have ended. Otherwise call sleep_until_news(), which sleeps
  // until a rank ends, `wake` becomes readable, or it is time for the next look. With `idle` it looks at
  // ranks only for a reason.
  bool look();
  void sleep_until_news(int wake = -1, bool idle = false) const;

  // Names the ranks that failed so far, causes before their consequences; empty if there are none.
  std::string endings() const;
  bool has_ended(int rank) const { return !ranks_[static_cast<size_t>(rank)].running; }
  pid_t process(int rank) const { return ranks_[static_cast<size_t>(rank)].process; }
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  struct Rank {
    pid_t process = 0;
    int descriptor = -1;  // becomes readable when the process ends; -1: this kernel has none
    bool running = true;
    int stop_signal = 0;  // 0: not stopped
    int64_t stopped_ns = 0;
    int64_t killed_ns = 0;
    std::string verdict;       // why it was killed; empty: it was not
    std::string ending;        // empty: it runs, or has ended well
    bool consequence = false;  // it ended by itself because another rank had failed
  };

  void collect(Rank& rank);
  std::string describe_end(const Rank& rank, int state);
  bool run_has_failed() const;
  void judge(Rank& rank, int64_t passed_ns);
  void give_up(Rank& rank, const std::string& verdict);
  int number_of(const Rank& rank) const { return static_cast<int>(&rank - ranks_.data()); }

  const SupervisedRun& run_;
  std::vector<Rank> ranks_;
  int64_t last_look_ns_ = 0;
  int64_t failed_ns_ = 0;  // how long ago the run failed
};

}  // namespace braid::rt
