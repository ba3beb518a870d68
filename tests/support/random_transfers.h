// Random models of transfers between ranks: several BatchSendRecv, Send and Recv over 2 to 4 ranks. Some
// depend on scatters, gathers, reductions and products, and some on nothing else.
#pragma once

#include <cstdint>

#include "tests/support/random_graph.h"

namespace braid::test {

// `steps`: how many nodes. Values are small integers.
RandomProgram random_transfers(std::uint64_t seed, int steps);

}  // namespace braid::test
