// Groups of schedule nodes (Inductor's GroupedSchedulerNode). Members stay contiguous; nothing fuses into a
// group or comes between its members. Order-only dependencies can chain groups beyond the dependencies of
// effects (ScheduleNode::after).
//
//   before                    group_nodes: g = {cast, gather}, after f
//     cast                      f { ... }
//     mm                        mm
//     f { ... }                 grouped g after f { cast; gather }
//     gather
//
// A group takes the place of its last member, unless dependencies push it further down. Groups are acyclic
// with the nodes outside. A group that a path leaves and enters again is not made, and an order-only
// dependency that would close a cycle is dropped; the result lists both. Dependencies are computed anew at
// each call, so nodes that other passes made (a merged all-gather) need no special treatment.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/ids.h"
#include "ir/schedule.h"

namespace braid::passes {

struct NewGroup {
  std::string name;                       // made unique among operations and nodes
  std::vector<analysis::NodeId> members;  // single and fused nodes of Schedule::nodes, each in one group only
  std::vector<int> after;                 // indices of the new groups that come before
};
struct Grouping {
  std::vector<std::string> names;            // of the groups, by index; empty: not made
  std::vector<std::pair<int, int>> dropped;  // (group, after): dependencies that would have closed a cycle

  bool any() const;
};
// Puts nodes into groups, in the topological order of the result that is nearest to the present order.
// O((nodes + dependencies) log nodes). Leaves the schedule unchanged if no group can be made.
Grouping group_nodes(ir::Schedule& schedule, std::vector<NewGroup> groups);

// Takes groups at the top level apart, members in order: all of them, or the named ones. Dependencies of
// other groups on them end. Returns whether there were any.
bool unpack_groups(ir::Schedule& schedule);
bool unpack_groups(ir::Schedule& schedule, const std::set<std::string>& names);

// Groups for a pass that moves several nodes together; the destructor takes them apart without fusion.
class TemporaryGroups {
 public:
  TemporaryGroups(ir::Schedule& schedule, std::vector<NewGroup> groups);
  TemporaryGroups(const TemporaryGroups&) = delete;
  TemporaryGroups& operator=(const TemporaryGroups&) = delete;
  ~TemporaryGroups();

 private:
  ir::Schedule& schedule_;
  Grouping grouping_;
};

}  // namespace braid::passes
