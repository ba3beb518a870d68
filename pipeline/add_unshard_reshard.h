// Gathers the parameters of a stage before it computes and frees them once others are needed sooner (FSDP).
//
//   0F0,0F1,4F0,4F1,4B0,...   one stage at a time:   0UNSHARD,0F0,0F1,0RESHARD,4UNSHARD,4F0,...
//
// Before each cell, the next `residency` distinct computing stages should be resident: resident stages not
// among them are RESHARDed in ascending order, then those of the next `lookahead` that are missing are
// UNSHARDed in the order in which they compute. Stages still resident at the end are freed. A container
// counts with all its members, so it may exceed `residency`. Idle cells are dropped: gathering precedes a
// rank's own work and takes no turns.
//
// Takes rows without transfers. O(cells * stages of a rank) at worst, O(cells) if few stages change. Source:
// torch.distributed.pipelining, whose runtime has a residency of 3.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct UnshardOptions {
  int residency = 3;  // stages whose parameters a rank holds at once
  // How many of them are gathered ahead, at most `residency`.
  enum class Lookahead {
    full,       // all
    automatic,  // rank + 2: later ranks have more time before their first forward
    per_rank,
  };
  Lookahead lookahead = Lookahead::full;
  PerRank<int> per_rank;
};

// Throws BR0840 for a residency or look-ahead below 1, and for a list whose length is not the number of
// ranks.
PipelineSchedule add_unshard_reshard(const PipelineSchedule& schedule, const UnshardOptions& options = {});

}  // namespace braid::pipeline
