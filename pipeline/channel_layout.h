// Assigns the transfers of a schedule to queues and connections.
#pragma once

#include "pipeline/queue_policy.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

// A connection is an ordered pair of ranks with messages, on which the k-th SEND meets the k-th RECV. A queue
// is one end, on one rank, of a channel of the policy; its transfers proceed one after another.
class ChannelLayout {
 public:
  ChannelLayout(const PipelineSchedule& schedule, QueuePolicy::Kind policy);

  QueueId queue_of(Action transfer) const { return entries_[entry_of(transfer)].queue; }
  ConnectionId connection_of(Action transfer) const { return entries_[entry_of(transfer)].connection; }
  IdRange<QueueId> queues() const { return first_ids<QueueId>(queues_); }

  struct Connection {
    int from, to;  // ranks

    friend auto operator<=>(const Connection&, const Connection&) = default;
  };
  const IdVector<ConnectionId, Connection>& connections() const { return connections_; }

 private:
  struct Entry {
    QueueId queue;
    ConnectionId connection;
  };
  static int entry_of(Action t) { return 4 * t.stage + transfer_index(t.kind); }

  IdVector<int, Entry> entries_;                    // SEND_F, RECV_F, SEND_B and RECV_B of each stage
  IdVector<ConnectionId, Connection> connections_;  // ascending
  int queues_ = 0;
};

}  // namespace braid::pipeline
