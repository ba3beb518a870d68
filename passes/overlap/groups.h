// Groups of schedule nodes (Inductor's GroupedSchedulerNode): members stay contiguous, nothing fuses into a
// group or comes between its members, and groups can be chained by order-only dependencies that no effect
// asks for (ScheduleNode::after).
//
//   before                    group_nodes: g = {cast, gather}, after f
//     cast                      f { ... }
//     mm                        mm
//     f { ... }                 grouped g after f { cast; gather }
//     gather
//
// A group stands where its last member stood, unless dependencies push it further down. Groups are acyclic
// with all that is outside: one that a path leaves and enters again is not made, an order-only dependency
// that would close a cycle is dropped, and the caller is told. Dependencies are computed afresh at each
// call, so nodes that other passes made (a merged all-gather) are like any others.
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
  std::vector<int> after;                 // into the list of new groups
};
struct Grouping {
  std::vector<std::string> names;            // of the groups, by index; empty: not made
  std::vector<std::pair<int, int>> dropped;  // (group, after): dependencies that would have closed a cycle

  bool any() const;
};
// Puts nodes into groups, in a topological order of the result that is as near to the present one as the
// groups allow. O((nodes + dependencies) log nodes). Leaves the schedule alone if no group can be made.
Grouping group_nodes(ir::Schedule& schedule, std::vector<NewGroup> groups);

// Takes groups at the top level apart, members in order: all of them, or those named. Groups that were to
// come after one of them no longer are. True if there were any.
bool unpack_groups(ir::Schedule& schedule);
bool unpack_groups(ir::Schedule& schedule, const std::set<std::string>& names);

// Groups for as long as a pass drags several nodes along: gone, without fusion, when this goes.
class TemporaryGroups {
 public:
  TemporaryGroups(ir::Schedule& schedule, std::vector<NewGroup> groups);
  TemporaryGroups(const TemporaryGroups&) = delete;
  TemporaryGroups& operator=(const TemporaryGroups&) = delete;
  ~TemporaryGroups();

  const Grouping& grouping() const { return grouping_; }

 private:
  ir::Schedule& schedule_;
  Grouping grouping_;
};

}  // namespace braid::passes
