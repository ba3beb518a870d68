// How transfers share queues. A queue is first in, first out at both ends and carries no tags: the k-th SEND
// put into it meets the k-th RECV taken from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::pipeline {

struct ChannelPolicy {
  enum class Kind : std::uint8_t {
    rank,  // a rank issues all of its transfers one after the other, to whichever peer
    pair,  // one queue per pair of ranks, both directions in it
    edge,  // one queue per ordered pair of ranks
  };
  Kind kind = Kind::edge;
  // How many messages a SEND may leave behind without a RECV at the other end; 0: both meet (rendezvous).
  int buffered = 0;

  friend bool operator==(const ChannelPolicy&, const ChannelPolicy&) = default;
};

// "rank", "pair", "edge", each with ":K" for K buffered messages. Throws a user error that lists them.
ChannelPolicy parse_channel_policy(std::string_view text);
std::string to_string(ChannelPolicy policy);

}  // namespace braid::pipeline
