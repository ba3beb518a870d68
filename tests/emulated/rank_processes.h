// Runs a function on ranks as processes: this program anew, once for each rank.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/emulated/nccl_api.h"
#include "tests/emulated/support.h"

namespace braid::test {

// In a rank's process.
struct RankProcess {
  int rank = 0, ranks = 1;
  std::string argument;  // the same on all ranks

  // For the starting process, in the order of the calls.
  void report(const std::string& text) const;
  // To all other ranks, which `hear` it.
  void tell(const std::string& text) const;
  std::string hear() const;
  // Returns the id that rank `maker` makes and tells the others.
  ncclUniqueId share_id(int maker = 0) const;
};

using RankBody = void (*)(const RankProcess&);

// Makes a function known by name to processes that are started anew. An EXPECT in it fails the test of the
// starting process, and so does a finding that the function does not take.
struct RegisteredBody {
  RegisteredBody(const char* name, RankBody body);
  const char* name;
};

struct RankOutcome {
  bool exited = false;  // by itself, in time
  bool in_time = true;  // otherwise it was killed
  int code = 0;         // if it did
  int signal = 0;       // if that ended it
  std::vector<std::string> reports;
  std::string output;
  double seconds = 0;
};

// Waits for all ranks but those in `stopped`, which are killed once the others have ended. Fails the test if
// any of the processes, or anything else of them, is left afterwards.
std::vector<RankOutcome> run_rank_processes(const RegisteredBody& body, int ranks,
                                            const std::string& argument = "",
                                            const std::vector<int>& stopped = {});

// Fails the test unless each rank but `faulty` has ended well.
void expect_good(const std::vector<RankOutcome>& outcomes, const std::vector<int>& faulty = {});

}  // namespace braid::test
