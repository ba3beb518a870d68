#include "pipeline/channel_layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace braid::pipeline {
namespace {

template <class I, class Key>
void sort_unique(IdVector<I, Key>& keys) {
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}
template <class I, class Key>
I id_of(const IdVector<I, Key>& ascending, const Key& key) {
  return {static_cast<std::int32_t>(std::ranges::lower_bound(ascending, key) - ascending.begin())};
}

}  // namespace

ChannelLayout::ChannelLayout(const PipelineSchedule& s, QueuePolicy::Kind policy)
    : entries_(4 * s.rank_of_stage.size()) {
  using Key = std::pair<int, int>;
  struct Use {
    int entry;
    Connection connection;
    Key queue;
  };
  std::vector<Use> uses;
  IdVector<QueueId, Key> queues;
  uses.reserve(entries_.size());
  for (const int stage : s.rank_of_stage.ids()) {
    if (!sent_between(s, stage)) continue;
    for (const Action send :
         {Action{ActionKind::send_forward, stage, 0}, Action{ActionKind::send_backward, stage + 1, 0}}) {
      for (const Action t : {send, counterpart(send)}) {
        const int own = s.rank_of_stage[t.stage], peer = peer_of(s, t);
        const bool out = is_send(t.kind);
        Use use{entry_of(t), out ? Connection{own, peer} : Connection{peer, own}, {own, 0}};
        // The two ends of a channel are two queues, one on each rank.
        if (policy == QueuePolicy::Kind::pair) use.queue.second = peer;
        if (policy == QueuePolicy::Kind::edge) use.queue.second = 2 * peer + (out ? 1 : 0);
        uses.push_back(use);
        connections_.push_back(use.connection);
        if (policy != QueuePolicy::Kind::rank) queues.push_back(use.queue);
      }
    }
  }
  sort_unique(connections_);
  sort_unique(queues);
  const bool by_rank = policy == QueuePolicy::Kind::rank;
  queues_ = by_rank ? s.ranks() : count_of(queues);
  for (const Use& u : uses)
    entries_[u.entry] = {by_rank ? QueueId{u.queue.first} : id_of(queues, u.queue),
                         id_of(connections_, u.connection)};
}

}  // namespace braid::pipeline
