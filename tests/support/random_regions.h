// Random programs of regions: bodies that run several times or are chosen by a flag, within each other, with
// values carried from run to run, collectives and products inside, over 1 to 3 ranks.
#pragma once

#include "tests/support/random_graph.h"

namespace braid::test {

// Values are small integers, as those of random_program.
RandomProgram random_regions(std::uint64_t seed);

}  // namespace braid::test
