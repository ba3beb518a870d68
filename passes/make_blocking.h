// An asynchronous collective becomes a blocking one, and its wait and release go.
//
//   before                                          after
//     %r = all_reduce sum @g (%x) as ar               %r = all_reduce sum @g (%x) blocking as ar
//     %f = ...                                        %f = ...
//     %r.1 mutates %r = wait ar                       %y = pointwise { load %r }
//     release ar
//     %y = pointwise { load %r.1 }
//
// Contract
//   1. Functional, in place, coalesced, in groups and in regions: whoever named the result of the wait names
//      that of the collective. A collective without a wait stays as it is, and counts as changed nowhere.
//   2. It is complete where it started: no other node moves. What follows has still everything that it had.
//   3. Sends and receives are refused (may_block): two ranks that send to each other would both stand still.
//      Collectives cannot: the ranks of one program issue them in one order. Ranks that run different
//      programs need `braid check`.
//   4. Nothing outside of the schedule is remembered.
#pragma once

#include <span>

#include "ir/schedule.h"

namespace braid::passes {

bool may_block(const ir::CollectiveKernel& kernel);

// True if something changed. Drops the plan then. Ids are handed out anew, names stay.
bool make_blocking(ir::Schedule& schedule, std::span<const ir::OpId> starts);

}  // namespace braid::passes
