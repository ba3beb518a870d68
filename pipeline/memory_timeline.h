// The memory of each rank during a simulated step, in bytes, and an offset for each piece.
//
//   parameters   of a stage: from UNSHARD to RESHARD; the whole step if the row does not UNSHARD it
//   gradients    of a stage: from the start of its first W or B to the end of the step
//   activations  of a stage and micro-batch: from the start of F; after I weight_bytes remain, after W or B
//                none
//   received     a RECV's message: from when the RECV is posted to the end of the action that consumes it
//
// A piece that ends when another begins does not overlap it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pipeline/simulate.h"

namespace braid::pipeline {

enum class MemoryUse : std::uint8_t { parameters, gradients, activations, received };
std::string_view to_string(MemoryUse use);

// Bytes in use for an interval. The part of an activation that remains after I is a piece of its own, so that
// the rest becomes free.
struct MemoryPiece {
  MemoryUse use = MemoryUse::activations;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  // -1: of the whole stage
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
  std::vector<MemoryPoint> live;    // one entry per change
  std::int64_t peak = 0;            // bytes alive at once
  analysis::Time peak_at;
  std::int64_t at_peak[4] = {};  // by MemoryUse, at the first moment of the peak
  std::int64_t arena_bytes = 0;  // size needed by the offsets: at least `peak`
};

PerRank<RankMemory> memory_timeline(const PipelineSchedule& schedule, const PipelineCosts& costs,
                                    const Simulation& simulation);

}  // namespace braid::pipeline
