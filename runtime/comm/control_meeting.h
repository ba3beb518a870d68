// How the processes of a run find each other over TCP: rank 0 listens, the others connect.
//
//   rank 0 -> challenge (version, nonce)     to every process that connects
//   rank r -> hello (run, rank, size, subject, process, nonce)
//             + proof of the secret over it and the challenge
//   rank 0 -> welcome (all processes) or refusal (why) + proof over it and the hello's nonce, once all are
//             there
//
// Any process may connect, send anything or nothing, and stay; any process may listen at rank 0's address. So
// rank 0 serves all connections at once, forgets silent ones, and believes nothing without a proof; the
// secret itself is never sent. If ranks that have proved it differ (in size or subject, or one rank comes
// twice), all of them fail, with both sides in the message. A rank that finds another process at the address
// tries again until its time is over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/control_link.h"

namespace braid::rt {

struct ControlOptions {
  int rank = 0, size = 1;
  std::string run;      // equal on all ranks of a run
  std::string subject;  // what this rank is going to run: must be equal on all
  std::string secret;   // empty: none
  int64_t timeout_ms = 30'000;
};

namespace control {

// A rank's process, as others name it.
struct Member {
  int64_t process = 0;
  std::string host;

  std::string text(int rank) const;  // "rank 1 (process 4711 on HOST)"
};
Member this_member();

// Rank 0: `links` has one of every other rank, in the order of the ranks; its first is without a socket.
Status collect_ranks(const ControlOptions& options, const Socket& listener, std::vector<Link>* links,
                     std::vector<Member>* members);
// Every other rank: `links` has the one to rank 0.
Status meet_rank_0(const ControlOptions& options, const Address& address, std::vector<Link>* links,
                   std::vector<Member>* members);

}  // namespace control
}  // namespace braid::rt
