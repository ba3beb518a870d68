// How many activations a rank holds at once, and the slot of each.
//
// An activation lives from the cell of its F to that of its B or W; an I does not release it. Lifetimes
// include both cells, so two activations share a slot only if one begins in a later cell than the other ends
// in. Slots are assigned in order of the lifetimes' start, lowest free slot first, which uses no more slots
// than activations live at once. Source: torch.distributed.pipelining, activation liveness (2026).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

enum class SlotGranularity {
  stage_and_microbatch,
  microbatch,  // one slot per micro-batch for all stages, from the first F to the last release
};

struct HeldActivation {
  std::int32_t stage = -1;  // -1: all stages
  std::int32_t microbatch = 0;
  int start = 0, end = 0;  // cells of the row, counting idle ones: its lifetime
  int slot = 0;
};

struct ActivationSlots {
  int slots = 0;
  std::vector<HeldActivation> activations;  // by stage in the order of `stages`, then by micro-batch
};

// The slots for `stages` of one rank. Throws BR0841 for an unknown rank, for missing, unknown or repeated
// stages, and for a row in which a micro-batch is missing, repeated or out of order. O(n log n).
ActivationSlots liveness_slots(const PipelineSchedule& schedule, int rank, std::span<const int> stages,
                               SlotGranularity granularity);

}  // namespace braid::pipeline
