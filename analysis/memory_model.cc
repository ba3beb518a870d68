#include "analysis/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>

#include "analysis/offset_assignment.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/fused_loops.h"
#include "ir/in_place_collectives.h"

namespace braid::analysis {
namespace {

using namespace ir;

bool is_planned_kind(StorageKind kind) {
  return kind == StorageKind::activation || kind == StorageKind::comm;
}

std::int64_t upper_bytes(const Graph& graph, StorageId s) {
  const ir::Bounds b = bounds(graph[s].bytes);
  internal_check(b.max >= 0, "storage '{}' has a negative size", graph[s].name);
  if (b.max >= kUnbounded) {
    user_error(errors::kUnboundedTensor, {.node = graph[s].name},
               "the size of this tensor has no upper bound, so it cannot be placed",
               "give its dimensions bounds: --dim NAME=MIN..MAX");
  }
  return b.max;
}

}  // namespace

IdVector<StorageId, Touches> touches(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  IdVector<StorageId, Touches> all(graph.storages.size());
  const auto is_planned = [&](StorageId s) { return s.valid() && is_planned_kind(graph[s].kind); };
  // Collectives in flight and what is still to come: 1 wait, 2 release.
  std::map<OpId, int> open;
  std::vector<StorageTouch> touched;
  for (const NodeId node : nodes_of(schedule)) {
    const auto touch = [&](StorageId s) {
      if (!is_planned(s)) return;
      std::vector<NodeId>& nodes = all[s].nodes;
      if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
    };
    for (OpId op : ops_of(at(schedule.nodes, node))) {
      storages_of(graph, op, touched);
      for (const StorageTouch& t : touched) touch(t.storage);
      if (const auto* start = graph[op].as<CollectiveKernel>()) {
        open[op] = start->blocking ? 2 : 3;
      } else if (const auto* wait = graph[op].as<WaitKernel>()) {
        open[wait->start] &= ~1;
      } else if (const auto* release = graph[op].as<ReleaseKernel>()) {
        open[release->start] &= ~2;
      }
    }
  }
  for (const auto& [start, missing] : open) {
    if (missing == 0) continue;
    for (const Access& a : effects(graph, start).accesses) {
      const Storage& s = graph[a.region.storage];
      const bool read_by_peers = s.kind == StorageKind::comm && s.comm_kind == CommBufferKind::symmetric;
      if (is_planned(a.region.storage) && ((missing & 1) != 0 || read_by_peers)) {
        all[a.region.storage].to_end = true;
      }
    }
  }
  for (const GraphOutput& o : graph.outputs) {
    const StorageId s = root_storage(graph, o.buffer);
    if (s.valid() && !all[s].nodes.empty()) all[s].to_end = true;
  }
  for (const std::vector<BufferId>& node : local_buffers(schedule)) {
    for (BufferId b : node) all[root_storage(graph, b)] = {};
  }
  return all;
}

MemoryModel::MemoryModel(const Schedule& schedule, const MemoryOptions& options) : options_(options) {
  const Graph& graph = schedule.graph;
  IdVector<StorageId, Touches> all = touches(schedule);
  std::map<StorageId, StorageId> results;
  if (options_.in_place) {
    for (const InPlaceCollective& c : in_place_collectives(schedule)) {
      if (c.bytes < options_.in_place_collective_bytes) continue;
      Touches &operand = all[c.operand], &result = all[c.result];
      std::vector<NodeId> nodes;
      std::set_union(operand.nodes.begin(), operand.nodes.end(), result.nodes.begin(), result.nodes.end(),
                     std::back_inserter(nodes));
      operand = {std::move(nodes), operand.to_end || result.to_end};
      result = {};
      results[c.operand] = c.result;
    }
  }
  IdVector<NodeId, std::vector<TenantId>> of_node(nodes_of(schedule));
  IdVector<StorageId, TenantId> tenant_of(all.ids());
  for (const StorageId s : all.ids()) {
    if (all[s].nodes.empty()) continue;
    tenant_of[s] = tenants_.end_id();
    for (const NodeId node : all[s].nodes) of_node[node].push_back(tenant_of[s]);
    tenants_.push_back({s, results[s], upper_bytes(graph, s), graph[s].kind == StorageKind::comm,
                        all[s].to_end, std::move(all[s].nodes)});
  }
  for (const NodeId node : of_node.ids()) {
    touched_.push_back(of_node[node]);
    const ScheduleNode& n = at(schedule.nodes, node);
    std::vector<Reuse> reuses;
    if (options_.in_place && n.kind != ScheduleNode::Kind::grouped && of_node[node].size() > 1) {
      std::vector<TenantId> outs;  // only results of loops can take bytes
      for (OpId op : ops_of(n)) {
        if (graph[op].as<Loops>() == nullptr) continue;
        for (BufferId b : graph[op].outputs) {
          const StorageId s = root_storage(graph, b);
          const TenantId out = s.valid() ? tenant_of[s] : TenantId{};
          if (out.valid() && !tenants_[out].comm) outs.push_back(out);
        }
      }
      std::sort(outs.begin(), outs.end());
      outs.erase(std::unique(outs.begin(), outs.end()), outs.end());
      for (TenantId out : outs) {
        for (TenantId in : of_node[node]) {
          const Tenant& from = tenants_[in];
          if (in == out || from.comm || from.to_end || from.bytes < tenants_[out].bytes) continue;
          if (may_reuse_in_place(graph, n, from.storage, tenants_[out].storage)) reuses.push_back({in, out});
        }
      }
      // For each `out`, the smallest `in` that fits comes first.
      std::ranges::sort(reuses, {},
                        [&](const Reuse& r) { return std::tuple(r.out, tenants_[r.in].bytes, r.in); });
    }
    reuses_.push_back(reuses);
  }
}

MemoryModel MemoryModel::permuted(OrderView order) const {
  MemoryModel out = *this;
  out.touched_ = {};
  out.reuses_ = {};
  const IdVector<NodeId, Position> position = positions_of(order);
  for (const NodeId n : order) {
    out.touched_.push_back(touched_by(n));
    out.reuses_.push_back(reuses(n));
  }
  for (Tenant& t : out.tenants_) {
    for (NodeId& n : t.nodes) n = NodeId{position[n].index};
    std::sort(t.nodes.begin(), t.nodes.end());
  }
  return out;
}

MemoryModel::Lives MemoryModel::lives(OrderView order) const {
  internal_check(order.size() == touched_.ids().size(), "got an order of {} nodes for {}", order.size(),
                 touched_.ids().size());
  Lives lives(tenants_.ids());
  for (const Position step : order.ids()) {
    for (TenantId t : touched_by(order[step])) {
      Life& life = lives[t];
      if (!life.first.valid()) life.first = step;
      life.last = step;
    }
  }
  for (TenantId t : tenants_.ids()) {
    if (tenants_[t].to_end) lives[t].last = order.end_id() - 1;
  }
  return lives;
}

IdVector<TenantId, TenantId> MemoryModel::takes(OrderView order) const { return takes(order, lives(order)); }

IdVector<TenantId, TenantId> MemoryModel::takes(OrderView order, const Lives& lives) const {
  IdVector<TenantId, TenantId> takes(tenants_.ids());
  IdVector<TenantId, char> taken(tenants_.ids(), 0);
  for (const Position step : order.ids()) {
    for (const Reuse& r : reuses(order[step])) {
      const Life& in = lives[r.in];
      if (takes[r.out].valid() || taken[r.in] != 0) continue;
      if (lives[r.out].first != step || in.last != step) continue;
      if (in.first == in.last) continue;
      takes[r.out] = r.in;
      taken[r.in] = 1;
    }
  }
  return takes;
}

MemoryModel::Live MemoryModel::live(OrderView order) const {
  const Lives l = lives(order);
  return live(order, l, takes(order, l));
}

// If one tenant hands its bytes to another, the larger counts.
MemoryModel::Live MemoryModel::live(OrderView order, const Lives& lives,
                                    const IdVector<TenantId, TenantId>& takes) const {
  IdVector<Position, std::int64_t> change(order.size() + 1, 0);
  for (TenantId t : tenants_.ids()) {
    std::int64_t& birth = change[lives[t].first];
    birth = checked_add(birth, tenants_[t].bytes);
    change[lives[t].last + 1] -= tenants_[t].bytes;
    if (takes[t].valid()) {
      const std::int64_t shared = std::min(tenants_[t].bytes, tenants_[takes[t]].bytes);
      birth -= shared;
      change[lives[t].first + 1] += shared;
    }
  }
  Live out;
  out.bytes.reserve(order.size());
  std::int64_t now = 0;
  for (const Position step : order.ids()) {
    now = checked_add(now, change[step]);
    if (!out.peak_step.valid() || now > out.peak) {
      out.peak = now;
      out.peak_step = step;
    }
    out.bytes.push_back(now);
  }
  return out;
}

MemoryModel::Places MemoryModel::place(bool comm, const Lives& lives,
                                       const IdVector<TenantId, TenantId>& takes) const {
  std::vector<TenantId> by_birth;
  for (const TenantId t : tenants_.ids()) {
    if (tenants_[t].comm == comm) by_birth.push_back(t);
  }
  std::ranges::stable_sort(by_birth, {}, [&](TenantId t) { return lives[t].first; });
  Places places{IdVector<TenantId, std::size_t>(tenants_.ids(), 0), {}};
  std::vector<Block> blocks;
  for (const TenantId t : by_birth) {
    if (takes[t].valid()) {  // born later than that one, which has no fewer bytes, so its block exists
      places.block_of[t] = places.block_of[takes[t]];
      Block& block = blocks[places.block_of[t]];
      block.last = std::max(block.last, lives[t].last.index);
    } else {
      places.block_of[t] = blocks.size();
      blocks.push_back({tenants_[t].bytes, lives[t].first.index, lives[t].last.index});
    }
  }
  // The segment is registered memory, which is worth another attempt.
  places.where = assign_offsets(blocks, comm ? options_.comm_alignment : options_.arena_alignment,
                                options_.exact_limit, comm);
  return places;
}

MemoryPlan MemoryModel::plan(OrderView order) const {
  const Lives lives = this->lives(order);
  const IdVector<TenantId, TenantId> takes = this->takes(order, lives);
  MemoryPlan plan;
  for (const bool comm : {false, true}) {
    const Places places = place(comm, lives, takes);
    for (const TenantId t : tenants_.ids()) {
      if (tenants_[t].comm != comm) continue;
      const Placement place = {comm ? MemorySpace::comm : MemorySpace::arena,
                               places.where.offsets[places.block_of[t]], tenants_[t].bytes,
                               lives[t].first.index, lives[t].last.index};
      plan.placements[tenants_[t].storage] = place;
      if (tenants_[t].result.valid()) plan.placements[tenants_[t].result] = place;
    }
    (comm ? plan.comm_bytes : plan.arena_bytes) = places.where.bytes;
  }
  plan.live_peak_bytes = live(order, lives, takes).peak;
  internal_check(plan.live_peak_bytes <= plan.arena_bytes + plan.comm_bytes, "more bytes live than planned");
  return plan;
}

std::int64_t MemoryModel::planned_bytes(OrderView order) const {
  const Lives lives = this->lives(order);
  const IdVector<TenantId, TenantId> takes = this->takes(order, lives);
  return checked_add(place(false, lives, takes).where.bytes, place(true, lives, takes).where.bytes);
}

void check_cap(const Schedule& schedule, const MemoryModel& model, OrderView order, std::int64_t cap) {
  const std::int64_t planned = model.planned_bytes(order);
  if (planned <= cap) return;
  const MemoryModel::Live live = model.live(order);
  // The tenants alive at the peak, the largest first.
  const IdVector<NodeId, Position> position = positions_of(order);
  const auto place = [&](NodeId n) { return position[n]; };
  std::vector<TenantId> alive;
  for (const TenantId t : model.tenants().ids()) {
    const Tenant& tenant = model.tenants()[t];
    const Position first = std::ranges::min(tenant.nodes | std::views::transform(place));
    const Position last = std::ranges::max(tenant.nodes | std::views::transform(place));
    if (first <= live.peak_step && (last >= live.peak_step || tenant.to_end)) alive.push_back(t);
  }
  std::ranges::stable_sort(alive, std::ranges::greater(),
                           [&](TenantId t) { return model.tenants()[t].bytes; });
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t k = 0; k < std::min(kNamed, alive.size()); ++k) {
    const Tenant& t = model.tenants()[alive[k]];
    names += fmt::format("{}'{}' ({} bytes)", k > 0 ? ", " : "", schedule.graph[t.storage].name, t.bytes);
  }
  if (alive.size() > kNamed) names += fmt::format(", and {} more", alive.size() - kNamed);
  user_error(
      errors::kStorageInUse,
      {.node = order.empty() ? std::string() : ir::name_of(schedule, order[live.peak_step].index)},
      fmt::format("the memory cap of {} bytes cannot be met: {} bytes are planned; the most is live at "
                  "step {}, {} bytes: {}",
                  cap, planned, live.peak_step.index, live.peak, names),
      "raise --memory-cap, or make the tensors that are alive there smaller");
}

}  // namespace braid::analysis
