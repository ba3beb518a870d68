// How transfers share queues. A queue is FIFO at both ends and carries no tags: the k-th SEND meets the k-th
// RECV.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::pipeline {

struct QueuePolicy {
  enum class Kind : std::uint8_t {
    rank,  // one queue per rank for transfers with all peers
    pair,  // one queue per pair of ranks for both directions
    edge,  // one queue per ordered pair of ranks
  };
  Kind kind = Kind::edge;
  // How many messages of a connection may be sent before they are received; 0: SEND and RECV rendezvous.
  int buffered = 0;

  friend bool operator==(const QueuePolicy&, const QueuePolicy&) = default;
};

// "rank", "pair" or "edge", optionally with ":K" for K buffered messages. Otherwise throws a user error that
// lists these.
QueuePolicy parse_queue_policy(std::string_view text);
std::string to_string(QueuePolicy policy);

}  // namespace braid::pipeline
