// Assigns the transfers of a schedule to queues, as dense numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/channels.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// A connection is an ordered pair of ranks with messages, on which the k-th SEND meets the k-th RECV. A queue
// is one end, on one rank, of a channel of the policy; its transfers proceed one after another.
class ChannelLayout {
 public:
  ChannelLayout(const Schedule& schedule, ChannelPolicy::Kind policy);

  std::int32_t queue_of(Action transfer) const { return at(transfer).queue; }
  std::int32_t connection_of(Action transfer) const { return at(transfer).connection; }
  int queues() const { return queues_; }
  int connections() const { return static_cast<int>(connections_.size()); }

  struct Connection {
    std::int32_t from, to;
  };
  const std::vector<Connection>& connection() const { return connections_; }

 private:
  struct Entry {
    std::int32_t queue = -1;
    std::int32_t connection = -1;
  };
  // SEND_F, RECV_F, SEND_B and RECV_B of each stage.
  const Entry& at(Action t) const {
    return entries_[4 * static_cast<std::size_t>(t.stage) + static_cast<std::size_t>(t.kind) -
                    static_cast<std::size_t>(ActionKind::send_forward)];
  }

  std::vector<Entry> entries_;
  std::vector<Connection> connections_;  // ascending
  int queues_ = 0;
};

}  // namespace braid::pipeline
