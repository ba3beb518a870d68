// Bytes alive while a program is reordered: cheap enough for a search to ask at every step. The placement is
// left out, and so is in-place reuse unless asked for. So this is only an estimate of the planned bytes
// (memory_model.h): a search keeps a limit in live bytes, and its result is measured in planned ones.
//
// Arena and communication segment have bytes of their own, so the peaks of both count, not the peak of their
// sum.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/memory_model.h"

namespace braid::analysis {

using SpaceBytes = std::array<std::int64_t, 2>;  // arena, communication segment
inline std::int64_t total(const SpaceBytes& b) { return b[0] + b[1]; }

struct LiveTenant {
  std::int64_t bytes = 0;
  std::size_t space = 0;
  bool from_begin = false;    // alive before the first node that touches it
  bool to_end = false;        // and after the last one
  std::vector<NodeId> nodes;  // that touch it, ascending, without repetition
};

class LiveBytes {
 public:
  LiveBytes() = default;  // nothing is alive, ever
  LiveBytes(int nodes, IdVector<TenantId, LiveTenant> tenants);
  // The tenants of a model. `in_place`: what one hands to another counts once.
  LiveBytes(const MemoryModel& model, bool in_place);

  const IdVector<TenantId, LiveTenant>& tenants() const { return tenants_; }
  std::span<const TenantId> touched_by(NodeId node) const { return touched_[node]; }
  std::span<const MemoryModel::Reuse> reuses(NodeId node) const { return reuses_[node]; }
  IdRange<NodeId> nodes() const { return touched_.ids(); }
  bool empty() const { return tenants_.empty(); }
  // Returns the live bytes of the reversed problem (tails.h), without in-place reuse.
  LiveBytes reversed(int virtuals) const;

 private:
  IdVector<TenantId, LiveTenant> tenants_;
  IdLists<NodeId, TenantId> touched_;
  IdLists<NodeId, MemoryModel::Reuse> reuses_;
};

// Which nodes may come next so that the limit can be kept to the end: those after which the remaining nodes,
// in the order of a reference, stay within it. The first remaining node of the reference always may, so a
// list scheduler that asks here never ends in a dead end. In-place reuse is left out. Each question O(tenants
// of the node * log nodes).
class Admission {
 public:
  // `reference` keeps the limit.
  Admission(const LiveBytes& live, OrderView reference, std::int64_t limit);
  // The limit holds if `node` comes next.
  bool may_take(NodeId node);
  void take(NodeId node);
  // The first node of the reference that was not taken.
  NodeId next() const { return reference_[next_]; }

 private:
  struct Change {
    std::size_t space;
    Position from, to;  // of the reference, half open
    std::int64_t bytes;
  };
  // Changes to what the remaining nodes see, into changes_; the peak while the node runs.
  SpaceBytes changes_of(NodeId node);
  void add(std::size_t space, Position from, Position to, std::int64_t bytes);
  // The most that is alive at positions from .. to - 1; node i of the tree spans begin .. end - 1.
  using Tree = IdVector<int, std::int64_t>;
  std::int64_t most_in(std::size_t space, int i, Position begin, Position end, Position from,
                       Position to) const;
  void add(Tree& most, Tree& added, int i, Position begin, Position end, Position from, Position to,
           std::int64_t bytes);

  const LiveBytes* live_;
  Order reference_;
  IdVector<NodeId, Position> position_;
  std::int64_t limit_;
  Position next_{0};
  IdVector<Position, char> taken_;
  IdVector<TenantId, IdVector<int, Position>> touchers_;  // ascending
  IdVector<TenantId, int> first_, last_;                  // of those that remain, indices into touchers_
  IdVector<TenantId, char> born_;
  SpaceBytes now_{}, peak_{};
  std::array<Tree, 2> most_, added_;  // segment trees over the reference
  std::vector<Change> changes_;
  std::vector<Position> ends_;
};

}  // namespace braid::analysis
