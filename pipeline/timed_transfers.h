// Inserts SEND and RECV into searched orders at the times at which they happen in the model.
//
// Compute actions are visited in order of their end. If another rank needs the result, the SEND is appended
// to the action's own row and, at the same time, the matching RECV to the peer's. So a RECV comes before the
// action that the receiver is executing then: it is posted when its message arrives, neither later
// (add_send_recv.h takes turns instead of times and can put a RECV after an action that ends long afterwards)
// nor long before (at the head of a shared queue it would hold up the others). As there, all rows agree with
// one global order of transfers, so no channel policy can make them deadlock; prove_deadlock_free gives the
// certificate.
#pragma once

#include "pipeline/search_problem.h"

namespace braid::pipeline {

// evaluate() must accept the orders. O(actions log actions).
PipelineSchedule add_timed_send_recv(const SearchProblem& problem, const Orders& orders);

}  // namespace braid::pipeline
