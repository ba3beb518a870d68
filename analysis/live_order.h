// An order of the nodes and the bytes alive along it, kept while ranges of it are replaced.
//
// The bytes alive at a position depend only on the set of nodes before it and on the node itself. So a range
// that is replaced by a permutation of its nodes changes nothing outside: O(tenants that the nodes of the
// range touch).
#pragma once

#include <span>

#include "analysis/live_bytes.h"

namespace braid::analysis {

class LiveOrder {
 public:
  // `live` must outlive it; null: nothing is ever alive.
  LiveOrder(const LiveBytes* live, Order order);
  void set(Order order);

  const Order& order() const { return order_; }
  NodeId at(Position position) const { return order_[position]; }
  Position position(NodeId node) const { return position_[node]; }

  bool empty() const { return live_ == nullptr; }
  const LiveBytes& bytes() const { return *live_; }  // not of an empty one
  // Bytes alive before a position, or before the end; and while the node at a position executes.
  const SpaceBytes& before(Position position) const { return before_[position]; }
  const SpaceBytes& during(Position position) const { return during_[position]; }
  // The most that was alive while a node executed, in any order since set().
  const SpaceBytes& peaks() const { return peaks_; }
  // The first and the last touch of a tenant. One that is alive before all nodes has its first at -1, one
  // that stays alive has its last at the end.
  struct Life {
    Position first, last;
  };
  Life life(TenantId tenant) const { return lives_[tenant]; }

  // Returns what peaks() would be after replace(first, nodes).
  SpaceBytes peaks_with(Position first, std::span<const NodeId> nodes);
  // Puts `nodes`, a permutation of those that stand there, at first, first + 1, ...
  void replace(Position first, std::span<const NodeId> nodes);

 private:
  using Lives = IdVector<TenantId, Life>;
  // Finds the lives of all tenants that `nodes` touch, if these stand at first, first + 1, ...; `lives` may
  // be lives_.
  void find_lives(Position first, std::span<const NodeId> nodes, Lives& lives) const;
  // Returns the bytes alive while the node executes at the position. Updates `now` from the bytes before it
  // to those after it.
  SpaceBytes execute(NodeId node, Position position, const Lives& lives, SpaceBytes& now) const;
  void update(Position first, Position last);

  const LiveBytes* live_;
  Order order_;
  IdVector<NodeId, Position> position_;
  IdVector<Position, SpaceBytes> before_, during_;
  SpaceBytes peaks_{};
  Lives lives_, lives_with_;  // of order_; scratch of peaks_with()
};

}  // namespace braid::analysis
