// Why no more communication of an order is hidden: the reasons that reports print.
//
// A pass states what it moves and what it must keep (Freedom), never why it stopped. The reasons are found in
// the order that it made, in one way for all passes, and each is a claim that can be checked with the
// simulator. One collective moves at a time while all other nodes keep their order. Its start goes up with
// the nodes that it needs and that take no time. Its wait goes down with the nodes that need it and take no
// time.
//
//   none      a place exists that keeps the caps and makes the program faster; `where` names the best
//   memory    places that make it faster exist, but each exceeds a cap: the nearest by `bytes`, at `step` of
//             the resulting order
//   group     no such place, but there is one once all groups are taken apart; `other` is its group
//   form      as none, but the pass moves neither starts nor waits; or the pass's own reason why it cannot
//             change the collective
//   cost      no place makes the program faster, though at some the transfer would begin earlier; or the
//             collective is hidden
//   data      the transfer cannot begin earlier because it needs `other`, which ends when the collective
//             begins
//   order     the same because `other` precedes it in its channel, or must come first by the channel policy
//   boundary  it begins at the beginning of the schedule
//
// For passes that move only waits, data, order and boundary are about what stops the wait on its way down; a
// collective that is exposed in another one's wait has the limit `order` with that wait.
//
// The number of simulated nodes is limited: on large schedules the most exposed collectives come first, and
// those beyond the limit say so (none, "not examined"). Tests check every kind of reason against the
// simulator.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "analysis/costs/cost_model.h"
#include "analysis/report.h"
#include "ir/schedule.h"

namespace braid::explain {

// Returns the limit of every collective of the schedule in its present order, by the name of its start.
// `pass` is named in the text of `form`.
std::map<std::string, analysis::Limit> find_limits(const ir::Schedule& schedule,
                                                   const analysis::CostModel& costs,
                                                   const analysis::Freedom& freedom, std::string_view pass);

// Adds them to the report of the pass that made this schedule, except where the pass gave a reason itself.
void add_limits(analysis::OverlapReport& report, const ir::Schedule& after, const analysis::CostModel& costs);

}  // namespace braid::explain
