#include "pipeline/channel_layout.h"

#include <algorithm>

#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

using Key = std::uint64_t;

void sort_unique(std::vector<Key>& keys) {
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}
std::int32_t number(const std::vector<Key>& keys, Key key) {
  return static_cast<std::int32_t>(std::ranges::lower_bound(keys, key) - keys.begin());
}
Key pair_key(std::int32_t a, std::int32_t b) {
  return static_cast<Key>(a) << 32 | static_cast<std::uint32_t>(b);
}

}  // namespace

ChannelLayout::ChannelLayout(const Schedule& s, ChannelPolicy::Kind policy)
    : entries_(4 * s.rank_of_stage.size()) {
  struct Use {
    std::size_t entry;
    Key connection, queue;
  };
  std::vector<Use> uses;
  std::vector<Key> connections, queues;
  uses.reserve(entries_.size());
  for (int stage = 0; stage + 1 < s.stages(); ++stage) {
    if (!sent_between(s, stage)) continue;
    for (const ActionKind kind : {ActionKind::send_forward, ActionKind::send_backward}) {
      const Action send = {kind, kind == ActionKind::send_forward ? stage : stage + 1, 0};
      for (const Action t : {send, counterpart(send)}) {
        const auto own = s.rank_of_stage[static_cast<std::size_t>(t.stage)];
        const auto peer = static_cast<std::int32_t>(peer_of(s, t));
        const bool out = is_send(t.kind);
        Use use{4 * static_cast<std::size_t>(t.stage) + static_cast<std::size_t>(t.kind) -
                    static_cast<std::size_t>(ActionKind::send_forward),
                out ? pair_key(own, peer) : pair_key(peer, own), static_cast<Key>(own)};
        // The two ends of a channel are two queues, one on each rank.
        if (policy == ChannelPolicy::Kind::pair) use.queue = pair_key(own, peer);
        if (policy == ChannelPolicy::Kind::edge) use.queue = pair_key(own, 2 * peer + (out ? 1 : 0));
        uses.push_back(use);
        connections.push_back(use.connection);
        if (policy != ChannelPolicy::Kind::rank) queues.push_back(use.queue);
      }
    }
  }
  sort_unique(connections);
  sort_unique(queues);
  const bool by_rank = policy == ChannelPolicy::Kind::rank;
  queues_ = by_rank ? s.ranks() : static_cast<int>(queues.size());
  for (const Use& u : uses)
    entries_[u.entry] = {by_rank ? static_cast<std::int32_t>(u.queue) : number(queues, u.queue),
                         number(connections, u.connection)};
  for (const Key key : connections)
    connections_.push_back(
        {static_cast<std::int32_t>(key >> 32), static_cast<std::int32_t>(key & 0xffffffff)});
}

}  // namespace braid::pipeline
