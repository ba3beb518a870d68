// Makes asynchronous collectives blocking and removes their waits and releases.
//
//   before                                          after
//     %r = all_reduce sum @g (%x) as ar               %r = all_reduce sum @g (%x) blocking as ar
//     %f = ...                                        %f = ...
//     %r.1 mutates %r = wait ar                       %y = pointwise { load %r }
//     release ar
//     %y = pointwise { load %r.1 }
//
// Contract
//   1. Works on functional, in-place and coalesced collectives, in groups and in regions. Users of the wait's
//      result use the collective's result instead. A collective without a wait stays as it is and does not
//      count as a change.
//   2. The collective is complete where it started: no other node moves, and later nodes find all their
//      inputs.
//   3. Sends and receives are refused (may_block): two ranks that send to each other would both block.
//      Collectives cannot deadlock in this way, because the ranks of one program issue them in one order. If
//      the two sides of a transfer stand apart, or if ranks run different programs, a collective may block
//      only if it is waited for before anything else communicates.
//   4. No state is kept outside of the schedule.
#pragma once

#include <span>

#include "ir/id_vector.h"
#include "ir/schedule.h"

namespace braid::passes {

// Returns, by operation, the collectives that may block.
ir::IdVector<ir::OpId, bool> may_block(const ir::Schedule& schedule);

// Returns whether something changed; then the plan is dropped. Ids are renumbered, names stay.
bool make_blocking(ir::Schedule& schedule, std::span<const ir::OpId> starts);

}  // namespace braid::passes
