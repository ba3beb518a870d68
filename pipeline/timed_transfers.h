// Puts SEND and RECV into searched orders where the model says that they happen.
//
// All compute actions are walked by the time at which they end; one whose result another rank needs appends
// its SEND to its own row and, at the same moment, the matching RECV to the peer's. So a RECV stands before
// whatever the receiver is in the midst of then: it is posted when its message comes, neither later
// (add_send_recv.h takes turns instead of times, which can put a RECV behind an action that ends long after)
// nor long before (at the head of a shared queue it would hold up the others). As there, one global order of
// transfers runs through all rows, so no channel policy can make them wait for each other;
// prove_deadlock_free gives the certificate.
#pragma once

#include "pipeline/search_problem.h"

namespace braid::pipeline {

// Orders must be ones that evaluate() accepts. O(actions log actions).
Schedule add_timed_send_recv(const SearchProblem& problem, const Orders& orders);

}  // namespace braid::pipeline
