// The memory of each rank over a simulated step, in bytes, and where each piece of it can lie.
//
//   parameters   of a stage: from UNSHARD to RESHARD; the whole step where the row has no UNSHARD of it
//   gradients    of a stage: from the begin of its first W or B to the end
//   activations  of a stage and micro-batch: all from the begin of F; I leaves weight_bytes, W or B nothing
//   received     what RECV brings: from when it is posted to the end of the action that consumes it
//
// What ends when something else begins does not overlap with it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pipeline/simulate.h"

namespace braid::pipeline {

enum class MemoryUse : std::uint8_t { parameters, gradients, activations, received };
std::string_view to_string(MemoryUse use);

// Bytes that one thing takes for a while. What I leaves of an activation is a piece of its own, so that the
// rest is free.
struct MemoryPiece {
  MemoryUse use = MemoryUse::activations;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  // -1: of the stage
  std::int64_t bytes = 0;
  analysis::Time begin, end;
  std::int64_t offset = 0;  // in the rank's arena, a multiple of 256
};

struct MemoryPoint {
  analysis::Time from;
  std::int64_t bytes = 0;
};

struct RankMemory {
  std::vector<MemoryPiece> pieces;  // by begin
  std::vector<MemoryPoint> live;    // from each time on; changes only
  std::int64_t peak = 0;            // bytes alive at once
  analysis::Time peak_at;
  std::int64_t at_peak[4] = {};  // by MemoryUse, at the first such moment
  std::int64_t arena_bytes = 0;  // what the offsets need: at least peak
};

// One per rank.
std::vector<RankMemory> memory_timeline(const Schedule& schedule, const PipelineCosts& costs,
                                        const Simulation& simulation);

}  // namespace braid::pipeline
