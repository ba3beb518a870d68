// Who waits for whom. A rank that is blocked shows what it waits for, from its first look at the health of
// its peers on. Two things follow from that:
//
//   - Ranks that wait in a circle for what the next one has not started wait for ever: they disagree about
//     what comes next (a send against an all_reduce), and say so at once and not after a time-out.
//   - A time-out names the rank at the end of the chain, which itself waits for nobody, and not only the
//     neighbour.
//
// Why a circle is no false alarm: a rank counts its looks, each after a poll, and never starts anything while
// it is blocked. When all ranks of the circle have looked twice after somebody saw all of them blocked, with
// none unblocked in between, each one's last poll came after that moment and found that the next one had not
// started what it waits for. So it had not at that moment, when all were blocked.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/shm_arena.h"

namespace braid::rt::shm {

// One blocked call of this rank.
class Waiting {
 public:
  Waiting(Arena& arena, int rank) : arena_(arena), rank_(rank), line_(arena.rank_line(rank).wait) {}
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // After a poll: this call waits for `peer`, which may not have started its part. `call` says what it is.
  template <typename Describe>
  void look(int peer, bool unstarted, Describe call) {
    if (!shown_) show(call());
    look(peer, unstarted);
  }

  // After look(): the ranks that wait for each other for ever, this one among them. Empty: none are known.
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

// What follows "rank `peer` is missing" in a time-out: for whom that one waits, and so on to a rank that
// waits for nobody.
std::string chain_of_waits(const Arena& arena, int rank, int peer);

}  // namespace braid::rt::shm
