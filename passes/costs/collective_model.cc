#include "passes/costs/collective_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "passes/costs/cost_model.h"

namespace braid::passes {
namespace {

using ir::CollectiveKind;
using Curve = CollectiveCandidate::Curve;

// Constants of src/graph/tuning.cc; rows LL, LL128, Simple; microseconds and GB/s.
enum Protocol : int { kLL, kLL128, kSimple };
constexpr std::array<const char*, 3> kProtocolNames = {"LL", "LL128", "Simple"};
constexpr std::array<double, 3> kTreeBase = {6.8, 14.0, 8.4}, kRingBase = {6.6, 14.0, 8.4};
constexpr std::array<double, 3> kTreeLink = {0.6, 1.25, 4.0}, kRingLink = {0.6, 1.9, 3.4};
constexpr std::array<double, 3> kTreeNet = {5.0, 8.5, 14.0}, kRingNet = {2.7, 4.0, 14.0};
constexpr double kNetOverhead = 1.0;  // launching a step of a ring that crosses the network; 3 x for Simple
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
// What PyTorch's first model knew: Hopper as Ampere, and the row of one node for many.
constexpr std::array<double, 4> kClassicLLMax = {39, 87.7, 87.7, 87.7};

// "Trees are not perfectly sticking to the model for medium sizes": by log2 of bytes / 64.
constexpr int kTreeSteps = 24;
constexpr double kTreeCorrection[3][kTreeSteps] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

constexpr double kSaturatingFrom = 5e7, kSaturatingPower = 0.17;
constexpr double kSaturatingTo = 0x1p34;  // our cap: without one no bandwidth would be the best

int log2_floor(int n) { return std::bit_width(static_cast<unsigned>(std::max(n, 1))) - 1; }

double affine_us(double latency, double gb_s, double bytes) { return latency + bytes / (gb_s * 1e3); }

// NCCL's tree, made so that time never falls and time per byte never rises: at every size the cheapest of the
// formula and a smaller message sent again and again, and never less than a smaller message.
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

bool gathers(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}
bool point_to_point(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

// How many times the ring turns, and what part of the wire's traffic is payload.
struct RingShape {
  int steps;
  double payload;  // payload bytes per byte of bus traffic
  int net_steps;   // steps that cross the network
};
RingShape ring_shape(CollectiveKind kind, const GroupTopology& g) {
  const double n = g.ranks;
  if (kind == CollectiveKind::all_reduce) return {2 * (g.ranks - 1), n / (2 * (n - 1)), 2 * (g.nodes - 1)};
  if (gathers(kind)) return {g.ranks - 1, n / (n - 1), g.nodes - 1};
  if (kind == CollectiveKind::all_to_all) return {2 * (g.ranks - 1), n / (2 * (n - 1)), 2 * (g.nodes - 1)};
  return {g.ranks - 1, 1, g.nodes - 1};  // broadcast
}

// ---------------------------------------------------------------------------------------------- the classic
// model

CollectiveCandidate classic(const CollectiveSettings& c, CollectiveKind kind, const GroupTopology& g) {
  const bool multi = g.nodes > 1;
  const double link = multi ? c.network->nic_gb_s : c.link_gb_s;
  const double fraction = multi || kind == CollectiveKind::all_reduce ? 0.25 : 1.0 / 3;
  const double bus = std::min(kClassicLLMax[static_cast<std::size_t>(c.generation)], 2 * link * fraction);
  RingShape ring = ring_shape(kind, g);
  if (!multi) ring.net_steps = 0;
  if (kind == CollectiveKind::all_to_all) ring.net_steps = g.nodes - 1;  // as that model has it
  if (kind == CollectiveKind::all_reduce && multi) ring.net_steps = 2 * g.nodes;
  const double hop = multi ? 1.0 : 0.6;
  // Sizes in GiB over bandwidths in GB/s: its unit slip, kept.
  const double gib = double(1 << 30) / 1e9;
  return {"ring LL", Curve::affine, kLL,
          kRingBase[kLL] + (ring.steps - ring.net_steps) * hop + ring.net_steps * kRingNet[kLL],
          bus * ring.payload * gib};
}

// ------------------------------------------------------------------------------------------------ NCCL's
// tuner

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
        bus_ = c.network->nic_gb_s * (0.77 + 0.23 * std::min(1.0, (g.nodes - 1) / 7.0));
      } else {
        // One ring per network card: as many as the node has, and ranks of the group to drive them.
        const double net = c.network->nic_gb_s * std::min(g.ranks_per_node, c.network->nics);
        bus_ = g.ranks_per_node == 1 ? net : std::min(bus_, net);
      }
    }
  }

  std::vector<CollectiveCandidate> run() {
    const bool p2p = point_to_point(shape_.kind);
    if (p2p || (shape_.kind == CollectiveKind::all_to_all && !inductor_)) {
      pairwise();
      return std::move(result_);
    }
    if (shape_.kind == CollectiveKind::all_reduce) {
      for (int p = kLL; p <= kSimple; ++p) tree(p);
    }
    for (int p = kLL; p <= kSimple; ++p) ring(p);
    if (!inductor_) {
      pat();
      nvls();
      symmetric();
    }
    return std::move(result_);
  }

 private:
  double ring_bus(int p) const {
    if (p == kLL) return std::min(kLLMax[generation_][row_], bus_ / 2);
    if (p == kLL128)
      return std::min(bus_ * (inductor_ ? 120.0 / 128 : 0.92),
                      kChannels[generation_] * kRingLL128[generation_]);
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
  // LL128 needs stores of 128 bytes to arrive whole, which networks do not promise.
  bool enabled(int p) const { return p != kLL128 || g_.nodes == 1; }

  void add(const char* algorithm, int p, Curve curve, double latency, double gb_s) {
    if (inductor_ && g_.nodes > 2) {
      // The model has no other curve with many nodes; a tree's correction is then left out.
      curve = Curve::saturating;
    }
    result_.push_back({fmt::format("{} {}", algorithm, kProtocolNames[static_cast<std::size_t>(p)]), curve, p,
                       latency, gb_s});
  }

  void tree(int p) {
    if (!enabled(p)) return;
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
    const double latency = kRingBase[i] + (shape.steps - shape.net_steps) * std::max(kRingLink[i], overhead) +
                           shape.net_steps * kRingNet[i];
    add("ring", p, Curve::affine, latency, ring_bus(p) * shape.payload);
  }

  // Send, recv, and an all-to-all made of them: every rank has its own link, and a share of the node's cards.
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
        nic = std::min(
            c_.network->nic_gb_s * std::min(ranks, c_.network->nics) / ranks * (p == kLL ? 0.5 : 1), cap);
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

  // Multicast and reduction in the switch: payload over time does not depend on the number of ranks.
  void nvls() {
    if (shape_.kind != CollectiveKind::all_reduce || c_.nvls_gb_s == 0 || g_.nodes > 1 ||
        g_.ranks < kNvlsRanks)
      return;
    add("NVLS", kSimple, Curve::affine, kNvlsLatency, c_.nvls_gb_s);
  }

  void symmetric() {
    if (!symmetric_kernels_apply(c_, shape_, g_)) return;
    const SymmetricKernels& s = *c_.symmetric;
    const double payload = ring_shape(shape_.kind, g_).payload;
    const double n = g_.ranks;
    // One-shot: every rank reads all of all inputs, with a flag beside each word.
    const double traffic = shape_.kind == CollectiveKind::all_reduce ? n - 1 : (n - 1) / n;
    result_.push_back({"symmetric one-shot", Curve::affine, kLL, s.one_shot_us, s.gb_s / (2 * traffic)});
    const bool multicast = shape_.kind == CollectiveKind::all_reduce && c_.nvls_gb_s > 0;
    result_.push_back({"symmetric two-shot", Curve::affine, kSimple, s.two_shot_us,
                       multicast ? c_.nvls_gb_s : s.gb_s * payload});
  }

 public:
  // One node; sums of f32, f16 and bf16; gathers of anything.
  static bool symmetric_kernels_apply(const CollectiveSettings& c, const CollectiveShape& shape,
                                      const GroupTopology& g) {
    if (!c.symmetric || g.nodes > 1) return false;
    if (shape.kind == CollectiveKind::all_gather) return true;
    const bool dtype =
        shape.dtype == ir::DType::f32 || shape.dtype == ir::DType::f16 || shape.dtype == ir::DType::bf16;
    return dtype && shape.reduce == ir::ReduceKind::sum &&
           (shape.kind == CollectiveKind::all_reduce || shape.kind == CollectiveKind::reduce_scatter);
  }

 private:
  const CollectiveSettings& c_;
  const CollectiveShape& shape_;
  const GroupTopology& g_;
  std::size_t generation_, row_;
  bool inductor_;
  double bus_ = 0;
  std::vector<CollectiveCandidate> result_;
};

// ------------------------------------------------------------------------------------------ the
// shared-memory engine

// Every rank copies link_gb_s, reads and writes counted; gb_s is payload over time.
std::vector<CollectiveCandidate> shared_memory(const CollectiveSettings& c, CollectiveKind kind,
                                               const GroupTopology& g) {
  const double n = g.ranks;
  const auto with = [&](const char* name, double latency, double traffic) {
    return CollectiveCandidate{name, Curve::affine, 0, latency * std::max(1, log2_floor(g.ranks)),
                               c.link_gb_s / traffic};
  };
  if (kind == CollectiveKind::all_reduce) {
    // One-shot reads all inputs; two-shot reads a slab of each, then the others' results.
    return {with("one-shot", c.symmetric->one_shot_us, n + 1),
            with("two-shot", c.symmetric->two_shot_us, (n + 1) / n + 2 * (n - 1) / n)};
  }
  if (kind == CollectiveKind::reduce_scatter)
    return {with("one-shot", c.symmetric->one_shot_us, (n + 1) / n)};
  return {with("copy", c.symmetric->one_shot_us, 2)};
}

const MeasuredTable* measured(const CollectiveSettings& c, const CollectiveShape& shape,
                              const GroupTopology& g) {
  const bool symmetric = Tuner::symmetric_kernels_apply(c, shape, g);
  const MeasuredTable* result = nullptr;
  for (const MeasuredTable& t : c.measured) {
    if (t.kind != shape.kind || t.ranks != g.ranks || t.nodes != g.nodes || (t.symmetric && !symmetric))
      continue;
    if (!result || t.symmetric) result = &t;
  }
  // A table of the ordinary kernels says nothing where better ones would be taken.
  return result && result->symmetric == symmetric ? result : nullptr;
}

double interpolate(const MeasuredTable& table, double bytes) {
  const auto& p = table.points;
  if (bytes >= static_cast<double>(p.back().bytes))
    return p.back().us * bytes / static_cast<double>(p.back().bytes);
  std::size_t k = 1;
  while (static_cast<double>(p[k].bytes) < bytes) ++k;
  const double b0 = static_cast<double>(p[k - 1].bytes), b1 = static_cast<double>(p[k].bytes);
  const double x = std::log(bytes / b0) / std::log(b1 / b0);
  return p[k - 1].us * std::pow(p[k].us / p[k - 1].us, x);
}

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

std::vector<CollectiveCandidate> collective_candidates(const Machine& machine, const CollectiveShape& shape,
                                                       const GroupTopology& group) {
  // A group of one copies its input, as NCCL does.
  if (group.ranks <= 1) return {{"copy", Curve::affine, 0, machine.launch_us, machine.memory_gb_s / 2}};
  switch (machine.collectives.model) {
    case CollectiveModelKind::classic:
      return {classic(machine.collectives, shape.kind, group)};
    case CollectiveModelKind::shared_memory:
      return shared_memory(machine.collectives, shape.kind, group);
    case CollectiveModelKind::nccl:
    case CollectiveModelKind::inductor:
      return Tuner(machine.collectives, shape, group).run();
  }
  return {};
}

CollectiveEstimate estimate_collective(const Machine& machine, const CollectiveShape& shape) {
  const GroupTopology group = topology(machine, shape.ranks);
  const std::vector<CollectiveCandidate> candidates = collective_candidates(machine, shape, group);
  const auto cheapest = [&](double bytes) {
    const CollectiveCandidate* best = &candidates.front();
    for (const CollectiveCandidate& c : candidates) {
      if (c.us(bytes) < best->us(bytes)) best = &c;
    }
    return best;
  };
  const double bytes = static_cast<double>(shape.bytes);
  if (const MeasuredTable* table = measured(machine.collectives, shape, group)) {
    const double first = static_cast<double>(table->points.front().bytes);
    const double scale = table->points.front().us / cheapest(first)->us(first);
    const CollectiveCandidate* model = cheapest(bytes);
    return {"measured", bytes < first ? scale * model->us(bytes) : interpolate(*table, bytes),
            scale * cheapest(0)->us(0),
            bytes * table->points.back().us / static_cast<double>(table->points.back().bytes)};
  }
  const CollectiveCandidate* best = cheapest(bytes);
  double limit = 0;
  for (const CollectiveCandidate& c : candidates) limit = std::max(limit, c.limit_gb_s());
  return {best->name, best->us(bytes), best->latency_us, bytes / (limit * 1e3)};
}

std::int64_t saturation_bytes(const Machine& machine, const CollectiveShape& shape, double efficiency) {
  const std::vector<CollectiveCandidate> candidates =
      collective_candidates(machine, shape, topology(machine, shape.ranks));
  const CollectiveCandidate* widest = &candidates.front();
  for (const CollectiveCandidate& c : candidates) {
    if (c.gb_s > widest->gb_s) widest = &c;
  }
  return static_cast<std::int64_t>(widest->latency_us * widest->gb_s * 1e3 * efficiency / (1 - efficiency));
}

}  // namespace braid::passes
