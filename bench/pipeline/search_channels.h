// Measures how much queues lengthen a searched schedule: the model lets transfers pass each other freely.
#pragma once

#include <cstdint>

namespace braid::pipeline {

// Prints a table over channel policies, problems of 4 ranks and 8 micro-batches. False when a result is below
// its bound or longer than a known schedule under the same channels.
bool print_channel_table(std::uint64_t seed, std::int64_t budget, int cases);

}  // namespace braid::pipeline
