// Which rank waits for which. A blocked rank publishes what it waits for, starting with its first health
// check of its peers. This gives two things:
//
//   - Ranks in a cycle, each waiting for something that the next one has not started, wait forever: they
//     disagree about what comes next (say, a send and an all_reduce) and report it at once, not after a
//     time-out.
//   - A time-out names the rank at the end of the chain, which waits for no other, not only the neighbour.
//
// A cycle is never a false alarm: a rank counts its checks, each after a poll, and starts nothing while it is
// blocked. Suppose that all ranks of the cycle have checked twice since one rank saw all of them blocked, and
// none was unblocked in between. Then each one's last poll came after that moment and found that the next one
// had not started what it waits for. So it had not at that moment, when all were blocked.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/shm_arena.h"

namespace braid::rt::shm {

// A blocked call of this rank.
class Waiting {
 public:
  Waiting(Arena& arena, int rank) : arena_(arena), rank_(rank), line_(arena.rank_line(rank).wait) {}
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Called after a poll: this call waits for `peer`, which may not have started its part. `call` describes
  // the call.
  template <typename Describe>
  void look(int peer, bool unstarted, Describe call) {
    if (!shown_) show(call());
    look(peer, unstarted);
  }

  // Called after look(): the ranks, including this one, that wait for each other forever. Empty if none are
  // known.
  std::string circle();

 private:
  struct Seen {
    int rank;
    uint32_t number, looks, target;
  };
  void show(const std::string& call);
  void look(int peer, bool unstarted);
  std::vector<Seen> find_circle() const;

  Arena& arena_;
  int rank_;
  WaitLine& line_;
  bool shown_ = false;
  std::vector<Seen> first_;  // the circle when it was first seen
};

// The text after "rank `peer` is missing" in a time-out: for which rank that one waits, and so on to a rank
// that waits for none.
std::string chain_of_waits(const Arena& arena, int rank, int peer);

}  // namespace braid::rt::shm
