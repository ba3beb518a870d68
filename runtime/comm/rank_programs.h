// Ranks that are programs of their own (Python's program.launch()), with the same promises as
// launch_processes(): they end with this process, even if they are stopped. A step that they do not finish
// ends in time and names the rank.
//
// This process may have any number of threads. A thread of its own supervises the ranks (rank_processes.h).
// The ranks serve one step after another: between steps they may be silent, or stopped, for any time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/status.h"

namespace braid::rt {

struct RankProgram {
  std::vector<std::string> arguments;    // the first one is the path of the program
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<int>
      descriptors;  // the program finds them as 3, 4, ...; of others it gets standard output and error only
};

class RankPrograms {
 public:
  // Starts the ranks, each in a session of its own; the first step has begun. `timeout_ms`: how long a step
  // waits for a stopped rank, and for ranks that still run after it has failed.
  static Status start(const std::vector<RankProgram>& ranks, int64_t timeout_ms,
                      std::unique_ptr<RankPrograms>* out);
  ~RankPrograms();  // end(0)
  RankPrograms(const RankPrograms&) = delete;
  RankPrograms& operator=(const RankPrograms&) = delete;

  std::vector<pid_t> processes() const;

  // A step waits for all ranks until they have answered. All may be called by any thread.
  void begin_step();
  void answered(int rank);
  void fail_step();  // a rank has answered that it failed

  // Readable if a rank has ended since the last call of endings().
  int news() const { return news_; }
  bool has_ended(int rank) const;
  // Returns the ranks that ended although they should not, or were killed, causes before consequences; empty
  // if there are none.
  std::string endings();

  // Lets the ranks end. Returns when they have; those that still run after `patience_ms` are killed, stopped
  // ones at once.
  void end(int64_t patience_ms);

 private:
  class Supervision;
  RankPrograms();

  std::unique_ptr<Supervision> supervision_;
  int news_ = -1;
};

}  // namespace braid::rt
