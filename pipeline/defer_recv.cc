#include "pipeline/defer_recv.h"

#include <algorithm>

#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

// The RECVs that were passed and are not emitted yet.
class Held {
 public:
  explicit Held(const PipelineSchedule& s) : s_(s), held_(stage_microbatches(s)) {}

  void hold(Action recv) {
    held_[stage_microbatch(s_, recv)] |= bit(recv.kind);
    from(peer_of(s_, recv)).push_back({count_++, recv});
  }

  void emit(Action recv, Row& out) {
    if (recv.kind == ActionKind::idle) return;
    KindSet& set = held_[stage_microbatch(s_, recv)];
    if ((set & bit(recv.kind)) == 0) return;  // emitted before a SEND, or in a batch
    set &= static_cast<KindSet>(~bit(recv.kind));
    out.push_back(recv);
  }

  // Emits in the order of the row, as emit_all does.
  void emit_from(int peer, Row& out) {
    auto& list = from(peer);
    for (const Entry& e : list) emit(e.recv, out);
    list.clear();
  }

  void emit_all(Row& out) {
    std::vector<Entry> rest;
    for (auto& [peer, list] : peers_) rest.insert(rest.end(), list.begin(), list.end());
    std::ranges::sort(rest, {}, &Entry::number);
    for (const Entry& e : rest) emit(e.recv, out);
    peers_.clear();
    count_ = 0;
  }

 private:
  struct Entry {
    std::size_t number = 0;  // in the row
    Action recv;
  };
  struct Peer {
    int rank = 0;
    std::vector<Entry> list;  // includes those that were emitted since
  };

  std::vector<Entry>& from(int rank) {  // a rank has few peers
    const auto at = std::ranges::find(peers_, rank, &Peer::rank);
    return at != peers_.end() ? at->list : peers_.emplace_back(Peer{rank, {}}).list;
  }

  const PipelineSchedule& s_;
  IdVector<StageMicrobatch, KindSet> held_;
  std::vector<Peer> peers_;  // of one row
  std::size_t count_ = 0;
};

}  // namespace

PipelineSchedule defer_recv(const PipelineSchedule& schedule) {
  Held held(schedule);
  return with_rows(schedule, [&](int rank, const Row& row) {
    Row to;
    to.reserve(row.size());
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      if (is_recv(row[p].kind)) {
        held.hold(row[p]);
        continue;
      }
      if (row[p].kind != ActionKind::batch_p2p)
        for (const Action a : members(row, p)) held.emit(recv_before(schedule, a), to);
      if (is_send(row[p].kind))
        if (const int peer = peer_of(schedule, row[p]); rank < peer) held.emit_from(peer, to);
      append(to, entries(row, p));
    }
    held.emit_all(to);
    return to;
  });
}

}  // namespace braid::pipeline
