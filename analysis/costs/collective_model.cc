#include "analysis/costs/collective_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/nccl_tuner.h"
#include "ir/collective_table.h"

namespace braid::analysis {
namespace {

using ir::Algorithm;
using ir::CollectiveKind;
using Curve = CollectiveCandidate::Curve;

// PyTorch's first model treats Hopper as Ampere, and several nodes as one.
constexpr std::array<double, 4> kClassicLLMax = {39, 87.7, 87.7, 87.7};

CollectiveCandidate classic(const CollectiveSettings& c, CollectiveKind kind, const GroupTopology& g) {
  const bool multi = g.nodes > 1;
  const double link = multi ? cards(*c.network, g, 1) * c.network->nic_gb_s : c.link_gb_s;
  const double fraction = multi || kind == CollectiveKind::all_reduce ? 0.25 : 1.0 / 3;
  const double bus = std::min(kClassicLLMax[static_cast<std::size_t>(c.generation)], 2 * link * fraction);
  RingShape ring = ring_shape(kind, g);
  if (!multi) ring.net_steps = 0;
  if (kind == CollectiveKind::all_to_all) ring.net_steps = g.nodes - 1;  // as in that model
  if (kind == CollectiveKind::all_reduce && multi) ring.net_steps = 2 * g.nodes;
  constexpr double kBaseLL = 6.6, kNetLL = 2.7;
  const double hop = multi ? 1.0 : 0.6;
  // That model divides GiB by GB/s; the slip is kept.
  const double gib = double(1 << 30) / 1e9;
  return {"ring LL", Curve::affine, 0,
          kBaseLL + (ring.steps - ring.net_steps) * hop + ring.net_steps * kNetLL, bus * ring.payload * gib};
}

// The shared-memory engine. Every rank copies link_gb_s, counting reads and writes; gb_s is payload per time.
std::vector<CollectiveCandidate> shared_memory(const CollectiveSettings& c, const CollectiveShape& shape,
                                               const GroupTopology& g) {
  const double n = g.ranks;
  const auto with = [&](const char* name, double latency, double traffic) {
    return CollectiveCandidate{
        name, Curve::affine, 0,
        latency * std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(g.ranks))) - 1),
        c.link_gb_s / traffic};
  };
  if (shape.kind == CollectiveKind::all_reduce) {
    // One-shot reads all inputs; two-shot reads a slab of each, then the others' results.
    const CollectiveCandidate one = with("one-shot", c.symmetric->one_shot_us, n + 1);
    const CollectiveCandidate two = with("two-shot", c.symmetric->two_shot_us, (n + 1) / n + 2 * (n - 1) / n);
    if (shape.algorithm == Algorithm::one_shot) return {one};
    if (shape.algorithm == Algorithm::two_shot) return {two};
    return {one, two};
  }
  if (row_of(shape.kind).reduces) {
    return {with("one-shot", c.symmetric->one_shot_us, (n + 1) / n)};
  }
  return {with("copy", c.symmetric->one_shot_us, 2)};
}

CollectiveCandidate paced_link(const CollectiveSettings& c, CollectiveKind kind, const GroupTopology& g) {
  const double n = g.ranks;
  const ir::CollectiveRow& row = row_of(kind);
  const bool slabs = row.in == ir::Blocks::all || row.out == ir::Blocks::all;
  const double payload = slabs ? n / (n - 1) : ring_shape(kind, g).payload;
  return {"paced link", Curve::affine, 0, c.link_latency_us, c.link_gb_s * payload};
}

// The constants of PyTorch's bucketing by saturation (pytorch#179935).
struct SaturationProfile {
  double bus_gb_s, hop_us, base_us, least_bytes;
};
const SaturationProfile& saturation_profile(const CollectiveSettings& c, const GroupTopology& g) {
  static constexpr SaturationProfile kLinks[] = {
      {14, 50, 10, 0}, {22, 45, 10, 0}, {36, 40, 10, 0}, {60, 30, 10, 0}};
  static constexpr SaturationProfile kNdr = {22, 12, 30, 100 * 0x1p20}, kHdr = {11, 14, 30, 75 * 0x1p20};
  constexpr double kNdrFrom = 40;  // GB/s of a card
  if (g.nodes > 1) return c.network->nic_gb_s >= kNdrFrom ? kNdr : kHdr;
  return kLinks[static_cast<std::size_t>(c.generation)];
}

const MeasuredTable* measured(const CollectiveSettings& c, const CollectiveShape& shape,
                              const GroupTopology& g) {
  if (shape.algorithm != Algorithm::unasked && shape.algorithm != Algorithm::library) return nullptr;
  // Tables are of groups alone.
  if (g.nodes > 1 && cards(*c.network, g, g.ranks_per_node) < std::min(g.ranks_per_node, c.network->nics))
    return nullptr;
  const bool symmetric = symmetric_kernels_apply(c, shape, g);
  const MeasuredTable* result = nullptr;
  for (const MeasuredTable& t : c.measured) {
    if (t.kind != shape.kind || t.ranks != g.ranks || t.nodes != g.nodes || (t.symmetric && !symmetric))
      continue;
    if (!result || t.symmetric) result = &t;
  }
  // A table of the ordinary kernels does not apply where better ones would be used.
  return result && result->symmetric == symmetric ? result : nullptr;
}

// Between the first and the last point: latency plus bytes over bandwidth, like every algorithm. (A line
// through the logarithms would be 2.4 times too high halfway between 1 MiB and 1 GiB.)
double interpolate(const MeasuredTable& table, double bytes) {
  const auto& p = table.points;
  std::size_t k = 1;
  while (static_cast<double>(p[k].bytes) < bytes) ++k;
  const double b0 = static_cast<double>(p[k - 1].bytes), b1 = static_cast<double>(p[k].bytes);
  return p[k - 1].us + (p[k].us - p[k - 1].us) * (bytes - b0) / (b1 - b0);
}

}  // namespace

std::vector<CollectiveCandidate> collective_candidates(const Machine& machine, const CollectiveShape& shape,
                                                       const GroupTopology& group) {
  // A group of one copies its input, as NCCL does.
  if (group.ranks <= 1) return {{"copy", Curve::affine, 0, machine.launch_us, machine.memory_gb_s / 2}};
  switch (machine.collectives.model) {
    case CollectiveModelKind::classic:
      return {classic(machine.collectives, shape.kind, group)};
    case CollectiveModelKind::shared_memory:
      return shared_memory(machine.collectives, shape, group);
    case CollectiveModelKind::paced_link:
      return {paced_link(machine.collectives, shape.kind, group)};
    case CollectiveModelKind::nccl:
    case CollectiveModelKind::inductor:
      return tuner_candidates(machine.collectives, shape, group);
  }
  return {};
}

CollectiveEstimate estimate_collective(const Machine& machine, const CollectiveShape& shape) {
  const GroupTopology group = topology(machine, shape.ranks, shape.siblings);
  const std::vector<CollectiveCandidate> candidates = collective_candidates(machine, shape, group);
  const auto cheapest = [&](double bytes) {
    const CollectiveCandidate* best = &candidates.front();
    for (const CollectiveCandidate& c : candidates) {
      if (c.us(bytes) < best->us(bytes)) best = &c;
    }
    return best;
  };
  const double bytes = static_cast<double>(shape.bytes);
  double limit = 0;
  for (const CollectiveCandidate& c : candidates) limit = std::max(limit, c.limit_gb_s());
  const CollectiveCandidate& best = *cheapest(bytes);
  const double us = best.us(bytes), floor_us = bytes / (limit * 1e3);
  const MeasuredTable* table = measured(machine.collectives, shape, group);
  if (!table) return {best.name, us, best.latency_us, floor_us};
  // Outside of the table the model continues from its ends.
  const auto scale = [&](const MeasuredTable::Point& p) {
    return p.us / cheapest(static_cast<double>(p.bytes))->us(static_cast<double>(p.bytes));
  };
  const MeasuredTable::Point &first = table->points.front(), &last = table->points.back();
  const double time = shape.bytes <= first.bytes  ? scale(first) * us
                      : shape.bytes >= last.bytes ? scale(last) * us
                                                  : interpolate(*table, bytes);
  return {"measured", time, scale(first) * cheapest(0)->us(0), scale(last) * floor_us};
}

std::int64_t saturation_bytes(const Machine& machine, const CollectiveShape& shape, double efficiency,
                              Saturation method) {
  const GroupTopology group = topology(machine, shape.ranks, shape.siblings);
  const double times = efficiency / (1 - efficiency);
  if (method == Saturation::inductor) {
    const SaturationProfile& p = saturation_profile(machine.collectives, group);
    const double bytes = times * (p.base_us + (group.ranks - 1) * p.hop_us) * p.bus_gb_s * 1e3;
    return static_cast<std::int64_t>(std::max(bytes, p.least_bytes));
  }
  const std::vector<CollectiveCandidate> candidates = collective_candidates(machine, shape, group);
  const auto widest = std::max_element(candidates.begin(), candidates.end(),
                                       [](const auto& a, const auto& b) { return a.gb_s < b.gb_s; });
  return static_cast<std::int64_t>(times * widest->latency_us * widest->gb_s * 1e3);
}

}  // namespace braid::analysis
