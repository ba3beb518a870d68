// The order in which a program starts its collectives, and which part of it a pass must keep.
//
//   any program                   the order within each group, unless the pass declares that it may change it
//   one with a send or receive    the order within each queue of the channel policy, and all messages of a
//                                 pair, whatever the pass declares. A pass sees one rank's program only, and
//                                 the message that the other side expects is known by its number
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

// A queue of one rank, in which collectives begin in the order of their starts: group, member and direction.
// A component by which the channel policy does not tell queues apart is -1.
using Queue = std::array<int, 3>;
std::vector<Queue> queues_of(const Schedule& schedule, OpId start);

// Whether both sides of each transfer are started before either is waited for, and each transfer is received
// before its send is released. Then no rank that runs this program waits for another one that has yet to get
// there. False for transfers in groups of more than two ranks.
bool transfers_meet(const Schedule& schedule);

class CollectiveOrder {
 public:
  explicit CollectiveOrder(const Schedule& schedule);
  bool operator==(const CollectiveOrder&) const = default;

  // How a pass that made `after` of this order broke the rule; empty if it kept it.
  std::string change(const CollectiveOrder& after, bool may_reorder) const;

 private:
  using Names = std::vector<std::string>;  // of starts, regions included
  using QueueName = std::tuple<std::string, int, int>;
  void add(const Schedule& schedule, OpId op);

  std::map<std::string, Names> of_group_;
  std::map<QueueName, Names> of_queue_;  // empty without sends and receives
  std::map<QueueName, Names> messages_;  // by group, kind and peer
};

}  // namespace braid::ir
