#include "analysis/costs/nccl_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "analysis/costs/cost_model.h"
#include "ir/collective_table.h"

namespace braid::analysis {
namespace {

using ir::Algorithm;
using ir::CollectiveKind;
using Curve = CollectiveCandidate::Curve;

// Constants of src/graph/tuning.cc; rows LL, LL128, Simple; microseconds and GB/s.
enum Protocol : int { kLL, kLL128, kSimple };
constexpr std::array<const char*, 3> kProtocolNames = {"LL", "LL128", "Simple"};
constexpr std::array<double, 3> kTreeBase = {6.8, 14.0, 8.4}, kRingBase = {6.6, 14.0, 8.4};
constexpr std::array<double, 3> kTreeLink = {0.6, 1.25, 4.0}, kRingLink = {0.6, 1.9, 3.4};
constexpr std::array<double, 3> kTreeNet = {5.0, 8.5, 14.0}, kRingNet = {2.7, 4.0, 14.0};
constexpr double kNetOverhead = 1.0;  // launch of a ring step that crosses the network; 3 x for Simple
constexpr double kNvlsLatency = 25.0;
constexpr double kPatBase = 8.0, kPatPerRank = 2.8, kPatBandwidth = 0.75;
// Groups of 4 on one node keep the ring (measured: 8 x H200, NCCL 2.30.7).
constexpr int kNvlsRanks = 5;

// By generation (Volta, Ampere, Hopper, Blackwell), then by 1, 2, more nodes.
using Row = std::array<double, 3>;
constexpr std::array<Row, 4> kLLMax = {Row{39, 39, 20.4}, Row{87.7, 22.5, 19}, Row{141, 45, 35},
                                       Row{282, 90, 70}};
constexpr std::array<Row, 4> kTreeLL128 = {Row{20, 20, 20}, Row{20, 20, 20}, Row{36.7, 36.7, 29},
                                           Row{55.6, 31.67, 20}};
constexpr std::array<Row, 4> kTreeSimple = {Row{26.5, 18.5, 10}, Row{24, 23.6, 17.8}, Row{38.7, 41.4, 36},
                                            Row{70, 42.8, 24}};
constexpr std::array<double, 4> kRingLL128 = {20, 20, 36.7, 40};
constexpr std::array<int, 4> kChannels = {2, 8, 16, 32};
// "Trees are not perfectly sticking to the model for medium sizes": by log2 of bytes / 64.
constexpr int kTreeSteps = 24;
constexpr double kTreeCorrection[3][kTreeSteps] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

constexpr double kSaturatingFrom = 5e7, kSaturatingPower = 0.17;
constexpr double kSaturatingTo = 0x1p34;  // our cap: without one there is no highest bandwidth

int log2_floor(int n) { return std::bit_width(static_cast<unsigned>(std::max(n, 1))) - 1; }

double affine_us(double latency, double gb_s, double bytes) { return latency + bytes / (gb_s * 1e3); }

// NCCL's tree, made so that time never falls and time per byte never rises: at every size the cheaper of the
// formula and a repeated smaller message, and at least the time of any smaller message.
double tree_us(const CollectiveCandidate& c, double bytes) {
  double best_ratio = INFINITY;  // us per byte over all smaller sizes
  double least = 0;              // what smaller sizes cost
  double end = 128;
  for (int k = 0; k < kTreeSteps; ++k, end *= 2) {
    const double gb_s = c.gb_s * kTreeCorrection[c.protocol][k];
    const bool last = bytes <= end || k == kTreeSteps - 1;
    const double at = last ? bytes : end;
    // Within a step the formula's time per byte falls, so its end is the cheapest.
    const double us = std::min(affine_us(c.latency_us, gb_s, at), at * best_ratio);
    if (last) return std::max(us, least);
    best_ratio = std::min(best_ratio, us / at);
    least = std::max(least, us);
  }
  return least;
}

double saturation_factor(double bytes) {
  return std::pow(std::clamp(bytes, kSaturatingFrom, kSaturatingTo) / kSaturatingFrom, kSaturatingPower);
}

bool gathers(CollectiveKind kind) { return row_of(kind).in != row_of(kind).out && !row_of(kind).rooted; }

}  // namespace

double cards(const Network& network, const GroupTopology& g, int ranks) {
  return std::min<double>(std::min(ranks, network.nics), static_cast<double>(network.nics) / g.siblings);
}

namespace {

class Tuner {
 public:
  Tuner(const CollectiveSettings& c, const CollectiveShape& shape, const GroupTopology& g)
      : c_(c),
        shape_(shape),
        g_(g),
        generation_(static_cast<std::size_t>(c.generation)),
        row_(static_cast<std::size_t>(std::min(g.nodes, 3) - 1)),
        inductor_(c.model == CollectiveModelKind::inductor) {
    bus_ = c.link_gb_s;
    if (g.nodes > 1) {
      if (inductor_) {
        bus_ = cards(*c.network, g, 1) * c.network->nic_gb_s *
               (0.77 + 0.23 * std::min(1.0, (g.nodes - 1) / 7.0));
      } else {
        // One ring per network card, limited by the node's cards and the ranks of the group that drive them.
        const double net = c.network->nic_gb_s * cards(*c.network, g, g.ranks_per_node);
        bus_ = g.ranks_per_node == 1 ? net : std::min(bus_, net);
      }
    }
  }

  std::vector<CollectiveCandidate> run() {
    const Algorithm asked = shape_.algorithm;
    const bool pairs = shape_.kind == CollectiveKind::all_to_all && !inductor_;
    const bool any = asked != Algorithm::ring;
    if (pairs || row_of(shape_.kind).point_to_point) {
      pairwise();
    } else if (symmetric_kernels_apply(c_, shape_, g_) && asked != Algorithm::unasked) {
      symmetric(asked != Algorithm::two_shot, asked != Algorithm::one_shot);
    } else {
      for (int p = kLL; p <= kSimple && any; ++p) tree(p);
      for (int p = kLL; p <= kSimple; ++p) ring(p);
      if (any && !inductor_) {
        pat();
        nvls();
        symmetric(true, true);
      }
    }
    return std::move(result_);
  }

 private:
  double ring_bus(int p) const {
    if (p == kLL) return std::min(kLLMax[generation_][row_], bus_ / 2);
    if (p == kLL128) {
      const double efficiency = inductor_ ? 120.0 / 128 : g_.nodes > 1 && g_.ranks_per_node == 1 ? 0.7 : 0.92;
      return std::min(bus_ * efficiency, kChannels[generation_] * kRingLL128[generation_]);
    }
    return bus_;
  }
  double tree_bus(int p) const {
    const double channels = kChannels[generation_];
    if (p == kLL) return std::min(kLLMax[generation_][row_], bus_ / 3.8);
    if (p == kLL128) {
      const double many = inductor_ ? 120.0 / 128 : 15.0 / 16;
      return std::min(bus_ * (g_.nodes == 1 ? 7.0 / 9 : many), channels * kTreeLL128[generation_][row_]);
    }
    return std::min(0.92 * bus_, channels * kTreeSimple[generation_][row_]);
  }
  // LL128 requires that stores of 128 bytes arrive whole. NCCL uses it over network cards behind the same
  // PCIe switch (as on all our machines); PyTorch's estimate never does over a network.
  bool enabled(int p) const { return p != kLL128 || g_.nodes == 1 || !inductor_; }

  void add(const char* algorithm, int p, Curve curve, double latency, double gb_s) {
    if (inductor_ && g_.nodes > 2) {
      // With many nodes the model has no other curve and drops a tree's correction.
      curve = Curve::saturating;
    }
    result_.push_back({fmt::format("{} {}", algorithm, kProtocolNames[static_cast<std::size_t>(p)]), curve, p,
                       latency, gb_s});
  }

  void tree(int p) {
    if (!enabled(p) || shape_.kind != CollectiveKind::all_reduce) return;
    const auto i = static_cast<std::size_t>(p);
    const int per_node = g_.ranks / g_.nodes;
    const double latency =
        kTreeBase[i] + 2 * ((per_node - 1) * kTreeLink[i] + log2_floor(g_.nodes) * kTreeNet[i]);
    add("tree", p, Curve::tree, latency, 0.5 * tree_bus(p));
  }

  void ring(int p) {
    if (!enabled(p)) return;
    const auto i = static_cast<std::size_t>(p);
    const RingShape shape = ring_shape(shape_.kind, g_);
    const double overhead = g_.nodes > 1 ? kNetOverhead * (p == kSimple ? 3 : 1) : 0;
    double latency = kRingBase[i] + (shape.steps - shape.net_steps) * std::max(kRingLink[i], overhead) +
                     shape.net_steps * kRingNet[i];
    // "Plateau effect of ring"
    const bool plateau =
        !inductor_ && p == kSimple && g_.nodes > 1 && shape_.kind == CollectiveKind::all_reduce;
    if (plateau) latency *= c_.generation == GpuGeneration::volta ? 1.9 : 1.4;
    add("ring", p, Curve::affine, latency, ring_bus(p) * shape.payload);
  }

  // Send, recv, and an all-to-all made of them: each rank has its own link and a share of the node's cards.
  void pairwise() {
    const bool multi = g_.nodes > 1;
    for (int p : {kLL, kSimple}) {
      const auto i = static_cast<std::size_t>(p);
      if (inductor_) {
        add("p2p", p, Curve::affine, kRingBase[i] + (multi ? kRingNet[i] : kRingLink[i]), 2 * ring_bus(p));
        continue;
      }
      const double cap = p == kLL ? kLLMax[generation_][row_] : INFINITY;
      const double link = std::min(c_.link_gb_s * (p == kLL ? 0.5 : 1), cap);
      double nic = INFINITY;
      if (multi) {
        const int ranks = shape_.kind == CollectiveKind::all_to_all ? g_.ranks_per_node : 1;
        nic = std::min(c_.network->nic_gb_s * cards(*c_.network, g_, ranks) / ranks * (p == kLL ? 0.5 : 1),
                       cap);
      }
      const double hop = multi ? kRingNet[i] : kRingLink[i];
      if (shape_.kind != CollectiveKind::all_to_all) {
        add("p2p", p, Curve::affine, kRingBase[i] + hop, multi ? nic : link);
        continue;
      }
      // Payload that stays on the node goes over links while the rest goes over the network; the slower one
      // decides. Every further peer costs the launch of a step.
      const double n = g_.ranks;
      const double near = (g_.ranks_per_node - 1) / n, far = (n - g_.ranks_per_node) / n;
      const double ns_per_byte = std::max(near / link, multi ? far / nic : 0);
      add("p2p", p, Curve::affine, kRingBase[i] + hop + (g_.ranks - 2) * kRingLink[kLL], 1 / ns_per_byte);
    }
  }

  // Parallel aggregated trees: gathers with one rank per node.
  void pat() {
    if (!gathers(shape_.kind) || g_.nodes < 2 || g_.ranks != g_.nodes) return;
    const double latency =
        kPatBase + log2_floor(g_.nodes) * (kRingNet[kSimple] / 3.5) + g_.ranks * kPatPerRank;
    add("PAT", kSimple, Curve::affine, latency, kPatBandwidth * bus_ * ring_shape(shape_.kind, g_).payload);
  }

  // Multicast and reduction in the switch: payload per time does not depend on the number of ranks.
  void nvls() {
    if (shape_.kind != CollectiveKind::all_reduce || c_.nvls_gb_s == 0 || g_.nodes > 1 ||
        g_.ranks < kNvlsRanks)
      return;
    add("NVLS", kSimple, Curve::affine, kNvlsLatency, c_.nvls_gb_s);
  }

  void symmetric(bool one_shot, bool two_shot) {
    if (!symmetric_kernels_apply(c_, shape_, g_)) return;
    const SymmetricKernels& s = *c_.symmetric;
    const bool reduces_all = shape_.kind == CollectiveKind::all_reduce;
    const double n = g_.ranks;
    if (one_shot) {
      // Every rank reads all inputs completely, with a flag beside each word.
      const double traffic = 2 * (reduces_all ? n - 1 : (n - 1) / n);
      result_.push_back({"symmetric one-shot", Curve::affine, kLL, s.one_shot_us, s.gb_s / traffic});
    }
    if (two_shot) {
      const bool multicast = reduces_all && c_.nvls_gb_s > 0;
      const double gb_s = multicast ? c_.nvls_gb_s : s.gb_s * ring_shape(shape_.kind, g_).payload;
      result_.push_back({"symmetric two-shot", Curve::affine, kSimple, s.two_shot_us, gb_s});
    }
  }

  const CollectiveSettings& c_;
  const CollectiveShape& shape_;
  const GroupTopology& g_;
  std::size_t generation_, row_;
  bool inductor_;
  double bus_ = 0;
  std::vector<CollectiveCandidate> result_;
};

}  // namespace

double CollectiveCandidate::us(double bytes) const {
  switch (curve) {
    case Curve::affine:
      return affine_us(latency_us, gb_s, bytes);
    case Curve::tree:
      return tree_us(*this, bytes);
    case Curve::saturating:
      return affine_us(latency_us, gb_s * saturation_factor(bytes), bytes);
  }
  return 0;
}

double CollectiveCandidate::limit_gb_s() const {
  return curve == Curve::saturating ? gb_s * saturation_factor(kSaturatingTo) : gb_s;
}

RingShape ring_shape(CollectiveKind kind, const GroupTopology& g) {
  const double n = g.ranks;
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_to_all) {
    return {2 * (g.ranks - 1), 2 * (g.nodes - 1), n / (2 * (n - 1))};
  }
  if (gathers(kind)) return {g.ranks - 1, g.nodes - 1, n / (n - 1)};
  return {g.ranks - 1, g.nodes - 1, 1};  // broadcast
}

bool symmetric_kernels_apply(const CollectiveSettings& c, const CollectiveShape& shape,
                             const GroupTopology& g) {
  const bool wanted = shape.algorithm == Algorithm::unasked || shape.algorithm == Algorithm::one_shot ||
                      shape.algorithm == Algorithm::two_shot;
  if (!c.symmetric || !shape.symmetric || !wanted || g.nodes > 1) return false;
  if (shape.kind == CollectiveKind::all_gather) return true;
  const bool dtype =
      shape.dtype == ir::DType::f32 || shape.dtype == ir::DType::f16 || shape.dtype == ir::DType::bf16;
  return dtype && shape.reduce == ir::ReduceKind::sum &&
         (shape.kind == CollectiveKind::all_reduce || shape.kind == CollectiveKind::reduce_scatter);
}

std::vector<CollectiveCandidate> tuner_candidates(const CollectiveSettings& c, const CollectiveShape& shape,
                                                  const GroupTopology& g) {
  return Tuner(c, shape, g).run();
}

}  // namespace braid::analysis
