// A schedule in the model of the papers: F, I and W take one unit each, B two, transfers nothing. The
// published formulas for bubbles and memory hold in it, and the drawings of timelines are of it. (Real costs,
// links and queues are the weighted simulation's.)
//
//   1F1B, 2 ranks, 3 micro-batches          makespan 12, idle 3 on each rank
//   rank 0  F0 F1 .  .  B0 -- F2 B1 -- .  B2 --
//   rank 1  .  F0 B0 -- F1 B1 -- F2 B2 -- .  .
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pipeline/schedule.h"

namespace braid::pipeline {

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

// Every cell as early as its rank and what it needs allow: F needs the F of the stage before, I and B the I
// or B of the stage after (on the last stage their own F), W its I. A container begins when all members can,
// and runs them in their order. What the rows lack for certain, such as an F that another one needs, counts
// as stuck. Takes any rows whose form is valid, lowered ones too. Linear.
IdealTimeline ideal_timeline(const Schedule& schedule);

// A line per rank, a column per unit of time: the action that begins there, "--" while it goes on, "." while
// the rank is idle, "+" behind a member that another one of its container follows. Stages are left out where
// every rank has one. Lines end without blanks. Nothing of more than `columns` units (0: all) is drawn.
std::string draw(const Schedule& schedule, const IdealTimeline& timeline, std::int64_t columns = 0);

// "makespan 12, idle 3 on each rank (25.0 %), peak activations 2, 1"
std::string summary(const IdealTimeline& timeline);

}  // namespace braid::pipeline
