// Gathers the parameters of a stage before it computes and frees them when others are needed sooner (FSDP).
//
//   0F0,0F1,4F0,4F1,4B0,...   one stage at a time:   0UNSHARD,0F0,0F1,0RESHARD,4UNSHARD,4F0,...
//
// Before each cell the next `residency` distinct stages that compute are wanted: RESHARD of the resident
// stages that are not among them, ascending, then UNSHARD of those among the next `lookahead` that are not
// there, in the order in which they compute. What is resident at the end is freed. A container counts with
// all of its members, so that it may add more stages than asked for. Idle cells go away: this happens in
// front of a rank's own work, not in turns.
//
// Takes rows without transfers. O(cells * stages of a rank) at worst, O(cells) when few change places.
// Source: torch.distributed.pipelining, the runtime's residency of 3.
#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct UnshardOptions {
  int residency = 3;  // stages whose parameters a rank holds
  // How many of them are gathered ahead; at most the residency counts.
  enum class Lookahead {
    full,       // all
    automatic,  // rank + 2: later ranks have more time before their first forward
    per_rank,
  };
  Lookahead lookahead = Lookahead::full;
  std::vector<int> per_rank;
};

// Throws BR0840 for a residency or look-ahead below 1, and for a list that is not as long as the ranks are
// many.
Schedule add_unshard_reshard(const Schedule& schedule, const UnshardOptions& options = {});

}  // namespace braid::pipeline
