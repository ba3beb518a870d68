// The ranks of a World that are children of this process, seen from here: how each has ended, and that all
// end in time whatever they do.
//
// A rank that computes may be silent for as long as it likes. It is given up, that is killed and named, when
//   - it is stopped (SIGSTOP, a debugger that went away) when the run has failed, or has been for twice the
//     World's time-out: who waits for it has said so by then;
//   - it still runs a time-out after the run has failed: a rank has ended badly, or the World has failed and
//     a rank has drawn its conclusions from that. By then it has missed its peers as they have missed it.
// Time counts only while this process runs: who suspends all of them loses none.
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
  // Ends the run: whoever still runs is killed.
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
    bool consequence = false;  // it ended by itself, as ranks do when another has failed
  };

  void collect(Rank& rank);
  std::string describe_end(const Rank& rank, int state);
  bool run_has_failed() const;
  void judge(Rank& rank, int64_t passed_ns);
  void give_up(Rank& rank, const std::string& verdict);
  void sleep_until_news() const;

  const SharedMemory& memory_;
  std::vector<Rank> ranks_;
  int64_t failed_ns_ = 0;  // for how long the run has been lost
};

}  // namespace braid::rt
