// How many activations a rank holds at once, and in which slot each lies.
//
// An activation lives from the cell of its F to that of its B, or W; an I does not release it. Both ends
// belong to the lifetime, so two activations share a slot only when one begins in a later cell than the
// other ends in. Slots are given in the order of the beginnings, the lowest free one first: no more of them
// than live at once. Source: torch.distributed.pipelining, activation liveness (2026).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

enum class SlotGranularity {
  stage_and_microbatch,
  microbatch,  // one slot for a micro-batch on all of the stages, from the first F to the last release
};

struct Lifetime {
  std::int32_t stage = -1;  // -1: all of the stages
  std::int32_t microbatch = 0;
  std::int32_t start = 0, end = 0;  // cells of the row, idle ones counted
  std::int32_t slot = 0;
};

struct ActivationSlots {
  int slots = 0;
  std::vector<Lifetime> lifetimes;  // by stage as they were named, then by micro-batch
};

// Of the named stages of one rank. Throws BR0841 for no, unknown or repeated stages, a rank that is not
// there, and a row in which a micro-batch is missing, done twice or not in order. O(n log n).
ActivationSlots liveness_slots(const Schedule& schedule, int rank, std::span<const int> stages,
                               SlotGranularity granularity);

}  // namespace braid::pipeline
