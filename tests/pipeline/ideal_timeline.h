// The model of the papers, as an oracle for the weighted simulation: F, I and W take one unit each, B two,
// transfers nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::test {

struct IdealTimeline {
  std::int64_t makespan = 0;

  struct Rank {
    std::vector<std::int64_t> begin;   // per entry of the row; -1: takes no time (idle, transfers, headers)
    std::int64_t work = 0;             // units computed
    std::int64_t first = 0, last = 0;  // begin of the first computation, end of the last one
    // Most micro-batches, counted once per stage, between their F and the end of their B or W.
    std::int64_t peak_activations = 0;
  };
  std::vector<Rank> ranks;

  // Ranks that wait for each other in a circle: the timeline ends before them.
  bool stuck = false;
};

// Begins every cell as early as its rank and the cells that it needs allow: F needs the F of the stage
// before, I and B the I or B of the stage after (on the last stage their own F), W its I. A container begins
// when all members can, and runs them in their order. Rows that lack a needed cell, such as an F, count as
// stuck. Takes any rows whose form is valid, lowered ones too. Linear.
IdealTimeline ideal_timeline(const pipeline::PipelineSchedule& schedule);

}  // namespace braid::test
