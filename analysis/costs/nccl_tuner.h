// The algorithms among which NCCL's tuner chooses, and their costs by its estimate: ring and tree with the
// protocols LL, LL128 and Simple, PAT, NVLS, and the symmetric kernels. CollectiveModelKind::inductor has the
// subset and the constants of PyTorch's estimate.
//
// Not modelled: CollNet and SHARP, NVLS trees over several nodes, the extra channels of large point-to-point
// transfers.
#pragma once

#include <vector>

#include "analysis/costs/collective_model.h"

namespace braid::analysis {

// For groups of at least two ranks.
std::vector<CollectiveCandidate> tuner_candidates(const CollectiveSettings& settings,
                                                  const CollectiveShape& shape, const GroupTopology& group);

// Whether NCCL's symmetric kernels can run: the machine has them, the group is on one node, and the operands
// are in symmetric memory. The collective is an all-gather or a sum of f32, f16 or bf16, and the program does
// not ask for another algorithm.
bool symmetric_kernels_apply(const CollectiveSettings& settings, const CollectiveShape& shape,
                             const GroupTopology& group);

// Returns how many of a node's network cards serve `ranks` ranks of one part, while its siblings use the
// node's cards too.
double cards(const Network& network, const GroupTopology& group, int ranks);

// The steps of a ring in a collective.
struct RingShape {
  int steps;
  int net_steps;   // steps that cross the network
  double payload;  // payload bytes per byte of bus traffic
};
RingShape ring_shape(ir::CollectiveKind kind, const GroupTopology& group);

}  // namespace braid::analysis
