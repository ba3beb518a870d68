// What stands in the way of less exposed communication in an order as it is: the reasons that reports print.
//
// A pass says what it moves and what it keeps to (Freedom), and never why it stopped: the reasons are found
// in the order that it made, in one way for all passes, and each is a claim that the simulator can be asked
// about. One collective moves at a time and all other nodes keep their order: its start goes up, with the
// nodes that it needs and that take no time; its wait goes down, with the nodes that need it and take no
// time.
//
//   none      such a place exists, keeps the caps, and the program ends earlier; `where` names the best
//   memory    places at which it ends earlier exist, but each exceeds a cap: the nearest by `bytes`, at
//             `step` of the order that results
//   group     no place, but there is one once all groups are taken apart; `other` is the group it is in
//   form      as none, but the pass moves neither starts nor waits; or what the pass itself says of a
//             collective that it cannot change
//   cost      no place makes the program end earlier, though there are some at which the transfer would begin
//             earlier; or the collective is hidden
//   data      the transfer cannot begin earlier because it needs `other`, which ends when the collective
//             begins
//   order     the same because `other` is in its channel before it, or must come first by the channel policy
//   boundary  it begins at the beginning of the schedule
//
// For passes that move waits and no starts: data, order and boundary are about what ends the wait's way down;
// a collective that is exposed in another one's wait has its order with that wait.
//
// Simulated nodes are counted: on large schedules the most exposed collectives come first, and those for
// which nothing is left say so (none, "not examined"). Tests hold every kind of reason against the simulator.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "analysis/costs/cost_model.h"
#include "analysis/report.h"
#include "ir/schedule.h"

namespace braid::passes {

// Of the schedule in its present order, by the name of the start. `pass`: for the words of `form`.
std::map<std::string, analysis::Limit> find_limits(const ir::Schedule& schedule,
                                                   const analysis::CostModel& costs,
                                                   const analysis::Freedom& freedom, std::string_view pass);

// Puts them into the report of the pass that made this schedule, where the pass has not said anything itself.
void explain(analysis::OverlapReport& report, const ir::Schedule& after, const analysis::CostModel& costs);

}  // namespace braid::passes
