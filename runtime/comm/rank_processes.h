// Supervises the ranks of a World that are children of this process: reports how each has ended and ensures
// that all end in time.
//
// A rank that computes may be silent for any time. It is killed and named if
//   - it is stopped (SIGSTOP, an abandoned debugger) and the run has failed, or it has been stopped for twice
//     the World's time-out: by then the ranks that wait for it have reported it;
//   - it still runs one time-out and a little after the run has failed, that is, a rank has ended with an error, or
//     the World has failed and a rank has ended because of that. By then it has timed out on its peers as well.
// Time counts only while this process runs, so suspending all of them is harmless.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/shm_world.h"

namespace braid::rt {

class RankProcesses {
 public:
  explicit RankProcesses(const SharedMemory& memory) : memory_(memory) {}
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void add(pid_t process);  // of the next rank
  // Ends the run: kills all ranks that still run.
  void kill_all();
  // Returns when all have ended. The error names those that failed, causes before their consequences.
  Status wait();

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
  void sleep_until_news() const;

  const SharedMemory& memory_;
  std::vector<Rank> ranks_;
  int64_t failed_ns_ = 0;  // how long ago the run failed
};

}  // namespace braid::rt
