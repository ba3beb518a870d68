// The algorithms among which NCCL's tuner chooses, and what it believes that they cost: ring and tree with
// the protocols LL, LL128 and Simple, PAT, NVLS, and the symmetric kernels. With
// CollectiveModelKind::inductor the subset and the constants of PyTorch's estimate.
//
// Not modelled: CollNet and SHARP, NVLS trees over several nodes, the extra channels of large point-to-point
// transfers.
#pragma once

#include <vector>

#include "analysis/costs/collective_model.h"

namespace braid::analysis {

// Groups of two ranks or more.
std::vector<CollectiveCandidate> tuner_candidates(const CollectiveSettings& settings,
                                                  const CollectiveShape& shape, const GroupTopology& group);

// One node; symmetric memory; sums of f32, f16 and bf16, or gathers of anything; and the program does not ask
// for something else.
bool symmetric_kernels_apply(const CollectiveSettings& settings, const CollectiveShape& shape,
                             const GroupTopology& group);

// How many times a ring turns for a collective.
struct RingShape {
  int steps;
  int net_steps;   // steps that cross the network
  double payload;  // payload bytes per byte of bus traffic
};
RingShape ring_shape(ir::CollectiveKind kind, const GroupTopology& group);

}  // namespace braid::analysis
