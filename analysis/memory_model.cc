#include "analysis/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/offset_assignment.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "ir/in_place_collectives.h"

namespace braid::analysis {
namespace {

using namespace ir;

std::size_t at(int index) { return static_cast<std::size_t>(index); }
std::size_t at(StorageId s) { return static_cast<std::size_t>(s.index); }

bool is_planned_kind(StorageKind kind) {
  return kind == StorageKind::activation || kind == StorageKind::comm;
}

std::int64_t upper_bytes(const Graph& graph, StorageId s) {
  const ir::Bounds b = bounds(graph[s].bytes);
  internal_check(b.max >= 0, "storage '{}' has a negative size", graph[s].name);
  if (b.max >= kUnbounded) {
    user_error(545, {.node = graph[s].name},
               "the size of this tensor has no upper bound, so it cannot be placed",
               "give its dimensions bounds: --dim NAME=MIN..MAX");
  }
  return b.max;
}

// Tenants that share one place: one, or a chain of in-place reuses.
struct Slot {
  Block block;
  std::vector<int> tenants;  // in order of birth
};

}  // namespace

std::vector<Touches> touches(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  std::vector<Touches> all(graph.storages.size());
  const auto is_planned = [&](StorageId s) { return s.valid() && is_planned_kind(graph[s].kind); };
  // Collectives that are under way and what still has to come: 1 wait, 2 release.
  std::map<OpId, int> open;
  std::vector<StorageTouch> touched;
  for (std::size_t node = 0; node < schedule.nodes.size(); ++node) {
    const auto touch = [&](StorageId s) {
      if (!is_planned(s)) return;
      std::vector<int>& nodes = all[at(s)].nodes;
      if (nodes.empty() || nodes.back() != static_cast<int>(node)) nodes.push_back(static_cast<int>(node));
    };
    for (OpId op : ops_of(schedule.nodes[node])) {
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
        all[at(a.region.storage)].to_end = true;
      }
    }
  }
  for (const GraphOutput& o : graph.outputs) {
    const StorageId s = root_storage(graph, o.buffer);
    if (s.valid() && !all[at(s)].nodes.empty()) all[at(s)].to_end = true;
  }
  for (const std::vector<BufferId>& node : local_buffers(schedule)) {
    for (BufferId b : node) all[at(root_storage(graph, b))] = {};
  }
  return all;
}

MemoryModel::MemoryModel(const Schedule& schedule, const MemoryOptions& options) : options_(options) {
  const Graph& graph = schedule.graph;
  std::vector<Touches> all = touches(schedule);
  std::map<StorageId, StorageId> results;
  if (options_.in_place) {
    for (const InPlaceCollective& c : in_place_collectives(schedule)) {
      if (c.bytes < options_.in_place_collective_bytes) continue;
      Touches &operand = all[at(c.operand)], &result = all[at(c.result)];
      std::vector<int> nodes;
      std::set_union(operand.nodes.begin(), operand.nodes.end(), result.nodes.begin(), result.nodes.end(),
                     std::back_inserter(nodes));
      operand = {std::move(nodes), operand.to_end || result.to_end};
      result = {};
      results[c.operand] = c.result;
    }
  }
  std::vector<std::vector<int>> of_node(schedule.nodes.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (all[s].nodes.empty()) continue;
    const StorageId id{static_cast<std::int32_t>(s)};
    const int tenant = static_cast<int>(tenants_.size());
    for (int node : all[s].nodes) of_node[at(node)].push_back(tenant);
    tenants_.push_back({id, results[id], upper_bytes(graph, id), graph[id].kind == StorageKind::comm,
                        all[s].to_end, std::move(all[s].nodes)});
  }
  std::vector<int> tenant_of(all.size(), -1);
  for (std::size_t t = 0; t < tenants_.size(); ++t) tenant_of[at(tenants_[t].storage)] = static_cast<int>(t);
  for (std::size_t node = 0; node < schedule.nodes.size(); ++node) {
    touched_.insert(touched_.end(), of_node[node].begin(), of_node[node].end());
    first_touched_.push_back(static_cast<int>(touched_.size()));
    const ScheduleNode& n = schedule.nodes[node];
    if (options_.in_place && n.kind != ScheduleNode::Kind::grouped && of_node[node].size() > 1) {
      std::vector<int> outs;  // only what loops write can take bytes
      for (OpId op : ops_of(n)) {
        if (graph[op].as<Loops>() == nullptr) continue;
        for (BufferId b : graph[op].outputs) {
          const StorageId s = root_storage(graph, b);
          const int out = s.valid() ? tenant_of[at(s)] : -1;
          if (out >= 0 && !tenants_[at(out)].comm) outs.push_back(out);
        }
      }
      std::sort(outs.begin(), outs.end());
      outs.erase(std::unique(outs.begin(), outs.end()), outs.end());
      const std::size_t first = reuses_.size();
      for (int out : outs) {
        for (int in : of_node[node]) {
          const Tenant& from = tenants_[at(in)];
          if (in == out || from.comm || from.to_end || from.bytes < tenants_[at(out)].bytes) continue;
          if (may_reuse_in_place(graph, n, from.storage, tenants_[at(out)].storage)) {
            reuses_.push_back({in, out});
          }
        }
      }
      // Of those that fit, the one whose size is nearest comes first.
      std::sort(reuses_.begin() + static_cast<std::ptrdiff_t>(first), reuses_.end(),
                [&](const Reuse& a, const Reuse& b) {
                  if (a.out != b.out) return a.out < b.out;
                  if (tenants_[at(a.in)].bytes != tenants_[at(b.in)].bytes) {
                    return tenants_[at(a.in)].bytes < tenants_[at(b.in)].bytes;
                  }
                  return a.in < b.in;
                });
    }
    first_reuse_.push_back(static_cast<int>(reuses_.size()));
  }
}

MemoryModel MemoryModel::permuted(std::span<const int> order) const {
  MemoryModel out = *this;
  out.first_touched_ = {0};
  out.first_reuse_ = {0};
  out.touched_.clear();
  out.reuses_.clear();
  std::vector<int> position(order.size(), -1);
  for (std::size_t k = 0; k < order.size(); ++k) {
    position[at(order[k])] = static_cast<int>(k);
    const std::span<const int> touched = touched_by(order[k]);
    out.touched_.insert(out.touched_.end(), touched.begin(), touched.end());
    out.first_touched_.push_back(static_cast<int>(out.touched_.size()));
    const std::span<const Reuse> reused = reuses(order[k]);
    out.reuses_.insert(out.reuses_.end(), reused.begin(), reused.end());
    out.first_reuse_.push_back(static_cast<int>(out.reuses_.size()));
  }
  for (Tenant& t : out.tenants_) {
    for (int& n : t.nodes) n = position[at(n)];
    std::sort(t.nodes.begin(), t.nodes.end());
  }
  return out;
}

std::span<const int> MemoryModel::touched_by(int node) const {
  return std::span(touched_).subspan(at(first_touched_[at(node)]),
                                     at(first_touched_[at(node) + 1] - first_touched_[at(node)]));
}

bool MemoryModel::may_reuse(int node, int in, int out) const {
  for (int k = first_reuse_[at(node)]; k < first_reuse_[at(node) + 1]; ++k) {
    if (reuses_[at(k)].in == in && reuses_[at(k)].out == out) return true;
  }
  return false;
}

std::vector<MemoryModel::Life> MemoryModel::lives(std::span<const int> order) const {
  internal_check(order.size() + 1 == first_touched_.size(), "an order of {} nodes for {}", order.size(),
                 first_touched_.size() - 1);
  std::vector<Life> lives(tenants_.size(), {-1, -1});
  for (std::size_t step = 0; step < order.size(); ++step) {
    for (int t : touched_by(order[step])) {
      Life& life = lives[at(t)];
      if (life.first < 0) life.first = static_cast<int>(step);
      life.last = static_cast<int>(step);
    }
  }
  for (std::size_t t = 0; t < tenants_.size(); ++t) {
    if (tenants_[t].to_end) lives[t].last = static_cast<int>(order.size()) - 1;
  }
  return lives;
}

std::vector<int> MemoryModel::takes(std::span<const int> order) const { return takes(order, lives(order)); }

std::vector<int> MemoryModel::takes(std::span<const int> order, std::span<const Life> lives) const {
  std::vector<int> takes(tenants_.size(), -1);
  std::vector<bool> taken(tenants_.size(), false);
  for (std::size_t step = 0; step < order.size(); ++step) {
    for (int k = first_reuse_[at(order[step])]; k < first_reuse_[at(order[step]) + 1]; ++k) {
      const Reuse& r = reuses_[at(k)];
      const Life& in = lives[at(r.in)];
      if (takes[at(r.out)] >= 0 || taken[at(r.in)]) continue;
      if (lives[at(r.out)].first != static_cast<int>(step) || in.last != static_cast<int>(step)) continue;
      if (in.first == in.last) continue;
      takes[at(r.out)] = r.in;
      taken[at(r.in)] = true;
    }
  }
  return takes;
}

MemoryModel::Live MemoryModel::live(std::span<const int> order) const {
  const std::vector<Life> l = lives(order);
  return live(order, l, takes(order, l));
}

// Where one tenant hands its bytes to another, the larger counts.
MemoryModel::Live MemoryModel::live(std::span<const int> order, std::span<const Life> lives,
                                    std::span<const int> takes) const {
  std::vector<std::int64_t> change(order.size() + 1, 0);
  for (std::size_t t = 0; t < tenants_.size(); ++t) {
    std::int64_t& birth = change[at(lives[t].first)];
    birth = checked_add(birth, tenants_[t].bytes);
    change[at(lives[t].last) + 1] -= tenants_[t].bytes;
    if (takes[t] >= 0) {
      const std::int64_t shared = std::min(tenants_[t].bytes, tenants_[at(takes[t])].bytes);
      birth -= shared;
      change[at(lives[t].first) + 1] += shared;
    }
  }
  Live out;
  out.bytes.reserve(order.size());
  std::int64_t now = 0;
  for (std::size_t step = 0; step < order.size(); ++step) {
    now = checked_add(now, change[step]);
    if (out.peak_step < 0 || now > out.peak) {
      out.peak = now;
      out.peak_step = static_cast<int>(step);
    }
    out.bytes.push_back(now);
  }
  return out;
}

MemoryPlan MemoryModel::plan(std::span<const int> order) const {
  const std::vector<Life> lives = this->lives(order);
  const std::vector<int> takes = this->takes(order, lives);
  std::vector<int> by_birth(tenants_.size());
  std::iota(by_birth.begin(), by_birth.end(), 0);
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](int a, int b) { return lives[at(a)].first < lives[at(b)].first; });
  MemoryPlan plan;
  for (const bool comm : {false, true}) {
    // Who takes another's bytes is born later than that one was, so its slot exists.
    std::vector<Slot> slots;
    std::vector<std::size_t> slot_of(tenants_.size(), 0);
    for (int t : by_birth) {
      const Tenant& tenant = tenants_[at(t)];
      const Life& life = lives[at(t)];
      if (tenant.comm != comm) continue;
      if (takes[at(t)] >= 0) {
        slot_of[at(t)] = slot_of[at(takes[at(t)])];
        Block& block = slots[slot_of[at(t)]].block;
        block.last = std::max(block.last, life.last);
        block.bytes = std::max(block.bytes, tenant.bytes);
      } else {
        slot_of[at(t)] = slots.size();
        slots.push_back({{tenant.bytes, life.first, life.last}, {}});
      }
      slots[slot_of[at(t)]].tenants.push_back(t);
    }
    std::vector<Block> blocks;
    for (const Slot& s : slots) blocks.push_back(s.block);
    // The segment is registered memory: worth another attempt.
    const Assignment where = assign_offsets(blocks, comm ? options_.comm_alignment : options_.arena_alignment,
                                            options_.exact_limit, comm);
    for (std::size_t k = 0; k < slots.size(); ++k) {
      for (int t : slots[k].tenants) {
        const Placement place = {comm ? MemorySpace::comm : MemorySpace::arena, where.offsets[k],
                                 tenants_[at(t)].bytes, lives[at(t)].first, lives[at(t)].last};
        plan.placements[tenants_[at(t)].storage] = place;
        if (tenants_[at(t)].result.valid()) plan.placements[tenants_[at(t)].result] = place;
      }
    }
    (comm ? plan.comm_bytes : plan.arena_bytes) = where.bytes;
  }
  plan.live_peak_bytes = live(order, lives, takes).peak;
  internal_check(plan.live_peak_bytes <= plan.arena_bytes + plan.comm_bytes, "more bytes live than planned");
  return plan;
}

std::int64_t MemoryModel::planned_bytes(std::span<const int> order) const {
  const MemoryPlan p = plan(order);
  return checked_add(p.arena_bytes, p.comm_bytes);
}

void check_cap(const Schedule& schedule, const MemoryModel& model, std::span<const int> order,
               std::int64_t cap) {
  const std::int64_t planned = model.planned_bytes(order);
  if (planned <= cap) return;
  const MemoryModel::Live live = model.live(order);
  // Who is alive at the worst step, the largest first.
  std::vector<int> position(order.size());
  for (std::size_t step = 0; step < order.size(); ++step) position[at(order[step])] = static_cast<int>(step);
  std::vector<int> alive;
  for (std::size_t t = 0; t < model.tenants().size(); ++t) {
    const Tenant& tenant = model.tenants()[t];
    int first = static_cast<int>(order.size()), last = -1;
    for (int n : tenant.nodes) {
      first = std::min(first, position[at(n)]);
      last = std::max(last, position[at(n)]);
    }
    if (first <= live.peak_step && (last >= live.peak_step || tenant.to_end))
      alive.push_back(static_cast<int>(t));
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [&](int a, int b) { return model.tenants()[at(a)].bytes > model.tenants()[at(b)].bytes; });
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t k = 0; k < std::min(kNamed, alive.size()); ++k) {
    const Tenant& t = model.tenants()[at(alive[k])];
    names += fmt::format("{}'{}' ({} bytes)", k > 0 ? ", " : "", schedule.graph[t.storage].name, t.bytes);
  }
  if (alive.size() > kNamed) names += fmt::format(", and {} more", alive.size() - kNamed);
  const int node = order.empty() ? -1 : order[at(live.peak_step)];
  user_error(
      570, {.node = node < 0 ? std::string() : ir::name_of(schedule, node)},
      fmt::format("the memory cap of {} bytes cannot be met: {} bytes are planned; the most is live at "
                  "step {}, {} bytes: {}",
                  cap, planned, live.peak_step, live.peak, names),
      "raise --memory-cap, or make the tensors that are alive there smaller");
}

}  // namespace braid::analysis
