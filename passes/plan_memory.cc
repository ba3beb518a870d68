#include "passes/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "passes/offset_assignment.h"

namespace braid::passes {
namespace {

using namespace ir;

std::size_t at(StorageId s) { return static_cast<std::size_t>(s.index); }

bool is_planned_kind(StorageKind kind) {
  return kind == StorageKind::activation || kind == StorageKind::comm;
}

std::int64_t upper_bytes(const Graph& graph, StorageId s) {
  const Bounds b = bounds(graph[s].bytes);
  internal_check(b.max >= 0, "storage '{}' has a negative size", graph[s].name);
  if (b.max >= kUnbounded) {
    user_error(545, {.node = graph[s].name},
               "the size of this tensor has no upper bound, so it cannot be placed",
               "give its dimensions bounds: --dim NAME=MIN..MAX");
  }
  return b.max;
}

// Storages that share one place: one, or a chain of in-place reuses.
struct Slot {
  Block block;
  std::vector<StorageId> storages;  // in order of birth
};

class Planner {
 public:
  Planner(const Schedule& schedule, const PlanMemory& options)
      : schedule_(schedule), graph_(schedule.graph), options_(options), lives_(lifetimes(schedule)) {}

  MemoryPlan plan() {
    bytes_.assign(graph_.storages.size(), 0);
    for (std::size_t s = 0; s < lives_.size(); ++s) {
      if (lives_[s].first >= 0) bytes_[s] = upper_bytes(graph_, StorageId{static_cast<std::int32_t>(s)});
    }
    const std::vector<StorageId> takes =
        options_.in_place ? in_place_pairs() : std::vector<StorageId>(lives_.size());
    MemoryPlan plan;
    std::vector<Slot> arena = slots(StorageKind::activation, takes);
    std::vector<Slot> comm = slots(StorageKind::comm, takes);
    plan.arena_bytes = place(arena, MemorySpace::arena, options_.arena_alignment, plan);
    plan.comm_bytes = place(comm, MemorySpace::comm, options_.comm_alignment, plan);
    plan.live_peak_bytes = live_peak(arena, comm);
    internal_check(plan.live_peak_bytes <= plan.arena_bytes + plan.comm_bytes,
                   "more bytes live than planned");
    return plan;
  }

 private:
  const Schedule& schedule_;
  const Graph& graph_;
  const PlanMemory& options_;
  const std::vector<Lifetime> lives_;
  std::vector<std::int64_t> bytes_;

  bool is_activation(StorageId s) const { return graph_[s].kind == StorageKind::activation; }

  // takes[out] = in: out is born where in dies, and has its bytes.
  std::vector<StorageId> in_place_pairs() const {
    const std::size_t steps = schedule_.nodes.size();
    std::vector<std::vector<StorageId>> born(steps), dying(steps);
    for (std::size_t s = 0; s < lives_.size(); ++s) {
      const StorageId id{static_cast<std::int32_t>(s)};
      if (lives_[s].first < 0 || !is_activation(id)) continue;
      born[static_cast<std::size_t>(lives_[s].first)].push_back(id);
      if (lives_[s].first < lives_[s].last) dying[static_cast<std::size_t>(lives_[s].last)].push_back(id);
    }
    std::vector<StorageId> takes(lives_.size());
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<StorageId>& candidates = dying[step];
      for (StorageId out : born[step]) {
        // Of those that fit, the one whose size is nearest.
        std::size_t best = candidates.size();
        for (std::size_t c = 0; c < candidates.size(); ++c) {
          if (bytes_[at(out)] > bytes_[at(candidates[c])]) continue;
          if (best < candidates.size() && bytes_[at(candidates[c])] >= bytes_[at(candidates[best])]) continue;
          if (may_reuse_in_place(graph_, schedule_.nodes[step], candidates[c], out)) best = c;
        }
        if (best == candidates.size()) continue;
        takes[at(out)] = candidates[best];
        candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(best));
      }
    }
    return takes;
  }

  std::vector<Slot> slots(StorageKind kind, const std::vector<StorageId>& takes) const {
    std::vector<StorageId> order;
    for (std::size_t s = 0; s < lives_.size(); ++s) {
      const StorageId id{static_cast<std::int32_t>(s)};
      if (lives_[s].first >= 0 && graph_[id].kind == kind) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](StorageId a, StorageId b) { return lives_[at(a)].first < lives_[at(b)].first; });
    // Who takes another's bytes is born later than that one was, so its slot exists.
    std::vector<Slot> out;
    std::vector<std::size_t> slot_of(lives_.size(), 0);
    for (StorageId s : order) {
      const Lifetime& life = lives_[at(s)];
      if (takes[at(s)].valid()) {
        slot_of[at(s)] = slot_of[at(takes[at(s)])];
        Block& block = out[slot_of[at(s)]].block;
        block.last = std::max(block.last, life.last);
        block.bytes = std::max(block.bytes, bytes_[at(s)]);
      } else {
        slot_of[at(s)] = out.size();
        out.push_back({{bytes_[at(s)], life.first, life.last}, {}});
      }
      out[slot_of[at(s)]].storages.push_back(s);
    }
    return out;
  }

  std::int64_t place(const std::vector<Slot>& slots, MemorySpace space, std::int64_t alignment,
                     MemoryPlan& plan) const {
    std::vector<Block> blocks;
    for (const Slot& s : slots) blocks.push_back(s.block);
    const Assignment where = assign_offsets(blocks, alignment, options_.exact_limit);
    for (std::size_t k = 0; k < slots.size(); ++k) {
      for (StorageId s : slots[k].storages) {
        plan.placements[s] = {space, where.offsets[k], bytes_[at(s)], lives_[at(s)].first,
                              lives_[at(s)].last};
      }
    }
    return where.bytes;
  }

  // Bytes in use at the worst step; where one storage hands its bytes to another, the larger counts.
  std::int64_t live_peak(const std::vector<Slot>& arena, const std::vector<Slot>& comm) const {
    std::vector<std::int64_t> change(schedule_.nodes.size() + 1, 0);
    const auto live = [&](int first, int last, std::int64_t bytes) {
      change[static_cast<std::size_t>(first)] = checked_add(change[static_cast<std::size_t>(first)], bytes);
      change[static_cast<std::size_t>(last) + 1] -= bytes;
    };
    for (const std::vector<Slot>* slots : {&arena, &comm}) {
      for (const Slot& slot : *slots) {
        for (std::size_t k = 0; k < slot.storages.size(); ++k) {
          const StorageId s = slot.storages[k];
          live(lives_[at(s)].first, lives_[at(s)].last, bytes_[at(s)]);
          if (k > 0) {
            const int step = lives_[at(s)].first;
            live(step, step, -std::min(bytes_[at(s)], bytes_[at(slot.storages[k - 1])]));
          }
        }
      }
    }
    std::int64_t now = 0, peak = 0;
    for (std::int64_t c : change) {
      now = checked_add(now, c);
      peak = std::max(peak, now);
    }
    return peak;
  }
};

}  // namespace

std::vector<Lifetime> lifetimes(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  std::vector<Lifetime> lives(graph.storages.size());
  const auto touch = [&](StorageId s, int step) {
    if (!s.valid() || !is_planned_kind(graph[s].kind)) return;
    Lifetime& life = lives[at(s)];
    if (life.first < 0) life.first = step;
    life.first = std::min(life.first, step);
    life.last = std::max(life.last, step);
  };
  const int last_step = static_cast<int>(schedule.nodes.size()) - 1;
  // Collectives that are under way and what still has to come: 1 wait, 2 release.
  std::map<OpId, int> open;
  for (int step = 0; step <= last_step; ++step) {
    for (OpId op : ops_of(schedule.nodes[static_cast<std::size_t>(step)])) {
      const Effects e = effects(graph, op);
      for (const Access& a : e.accesses) touch(a.region.storage, step);
      for (StorageId s : e.inside) touch(s, step);
      if (graph[op].as<RegionKernel>() != nullptr) continue;  // whole collectives only
      for (const CommEffect& c : e.comm) {
        if (c.phase == CommPhase::start) open[op] = c.blocking ? 2 : 3;
        if (c.phase == CommPhase::wait) open[c.start] &= ~1;
        if (c.phase == CommPhase::release) open[c.start] &= ~2;
      }
    }
  }
  for (const auto& [start, missing] : open) {
    if (missing == 0) continue;
    for (const Access& a : effects(graph, start).accesses) {
      const Storage& s = graph[a.region.storage];
      const bool read_by_peers = s.kind == StorageKind::comm && s.comm_kind == CommBufferKind::symmetric;
      if ((missing & 1) != 0 || read_by_peers) touch(a.region.storage, last_step);
    }
  }
  for (const GraphOutput& o : graph.outputs) {
    const StorageId s = root_storage(graph, o.buffer);
    if (s.valid() && lives[at(s)].first >= 0) touch(s, last_step);
  }
  for (const std::vector<BufferId>& node : local_buffers(schedule)) {
    for (BufferId b : node) lives[at(root_storage(graph, b))] = {};
  }
  return lives;
}

bool PlanMemory::run(Schedule& schedule) {
  for (const std::int64_t alignment : {arena_alignment, comm_alignment}) {
    if (alignment <= 0 || (alignment & (alignment - 1)) != 0) {
      user_error(542, {}, fmt::format("an alignment of {} bytes", alignment), "alignments are powers of two");
    }
  }
  MemoryPlan plan = Planner(schedule, *this).plan();
  if (schedule.plan == plan) return false;
  schedule.plan = std::move(plan);
  return true;
}

}  // namespace braid::passes
