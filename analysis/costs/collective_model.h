// The cost of a collective on a machine: NCCL's tuner and related models.
//
// Every algorithm that may run is a candidate, and the cheapest is taken. For a fixed group a candidate's
// time never falls with the size, and its time per byte never rises. Both properties carry over to the
// minimum, hence
//   * more bytes never cost less;
//   * one collective never costs more than the two it replaces: t(a + b) <= t(a) + t(b).
// A published formula may break this (NCCL's correction of trees by size). Then the time is capped by the
// cheapest smaller message repeated, and is at least that of any smaller message.
//
// Sources: NCCL 2.28.9 src/graph/tuning.cc and sym_kernels.cc; torch/_inductor/comm_analysis.py of 2023 and
// of mid-2026; network cards by ranks per node as in XLA's sol_gpu_cost_model.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/costs/machine.h"
#include "analysis/costs/time.h"
#include "ir/graph.h"

namespace braid::analysis {

struct CollectiveShape;

// One way to run a collective on a group: time in microseconds as a function of the payload.
struct CollectiveCandidate {
  enum class Curve : std::uint8_t {
    affine,     // latency + bytes / bandwidth
    tree,       // affine, bandwidth corrected by size
    saturating  // affine, bandwidth grows with (bytes / 50 MB)^0.17 beyond 50 MB
  };
  std::string name;  // "ring LL128"
  Curve curve = Curve::affine;
  int protocol = 0;       // tree: 0 LL, 1 LL128, 2 Simple
  double latency_us = 0;  // at no bytes
  double gb_s = 0;        // payload (CollectiveShape::bytes) per time

  double us(double bytes) const;
  // The highest payload per time over all sizes.
  double limit_gb_s() const;
};

// Returns all candidates that the shape's `algorithm` allows, in a fixed order; never empty. If the machine
// cannot run the algorithm (one-shot over several nodes), the library chooses.
std::vector<CollectiveCandidate> collective_candidates(const Machine& machine, const CollectiveShape& shape,
                                                       const GroupTopology& group);

struct CollectiveEstimate {
  std::string algorithm;
  double us = 0;
  double latency_us = 0;  // of the chosen algorithm at no bytes
  double floor_us = 0;    // bytes at the best bandwidth of all candidates
};
CollectiveEstimate estimate_collective(const Machine& machine, const CollectiveShape& shape);

// The payload from which a collective over these ranks uses the network well: the size of a full bucket.
enum class Saturation : std::uint8_t {
  model,    // this model: the size at which the widest algorithm reaches `efficiency` of its bandwidth,
            // latency * bandwidth * e / (1 - e)
  inductor  // PyTorch's bucketing: the same with a bandwidth, a base and a latency per hop of its own for
            // each kind of link, and a minimum for networks
};
std::int64_t saturation_bytes(const Machine& machine, const CollectiveShape& shape, double efficiency = 0.9,
                              Saturation method = Saturation::model);

}  // namespace braid::analysis
