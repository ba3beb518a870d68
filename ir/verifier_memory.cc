// Memory plans. Lifetimes are derived from the effects alone, not from the plan or the planner.
#include <algorithm>
#include <map>

#include "ir/fused_loops.h"
#include "ir/in_place_collectives.h"
#include "ir/verifier_impl.h"

namespace braid::ir {
namespace {

struct Life {
  int first = -1;
  int last = -1;
  void touch(int step) {
    first = first < 0 ? step : std::min(first, step);
    last = std::max(last, step);
  }
};

std::vector<Life> lives_of(const Schedule& s) {
  const Graph& g = s.graph;
  std::vector<Life> lives(g.storages.size());
  const auto touch = [&](StorageId id, int step) {
    if (id.valid()) lives[static_cast<std::size_t>(id.index)].touch(step);
  };
  const int end = static_cast<int>(s.nodes.size()) - 1;
  std::map<OpId, std::vector<Access>> pinned;  // memory that peers may read until a release
  for (int step = 0; step <= end; ++step) {
    for (OpId op : ops_of(s.nodes[static_cast<std::size_t>(step)])) {
      const Effects e = effects(g, op);
      for (const Access& a : e.accesses) touch(a.region.storage, step);
      for (StorageId id : e.inside) touch(id, step);
      if (g[op].as<RegionKernel>()) continue;
      for (const CommEffect& c : e.comm) {
        if (c.phase == CommPhase::start && !c.blocking) pinned[op] = e.accesses;
        if (c.phase == CommPhase::release) pinned.erase(c.start);
      }
    }
  }
  for (const auto& [op, accesses] : pinned) {
    for (const Access& a : accesses) {
      const Storage& st = g[a.region.storage];
      if (st.kind == StorageKind::comm && st.comm_kind == CommBufferKind::symmetric)
        touch(a.region.storage, end);
    }
  }
  for (const GraphOutput& o : g.outputs) touch(root_storage(g, o.buffer), end);
  for (const std::vector<BufferId>& local : local_buffers(s)) {
    for (BufferId b : local) lives[static_cast<std::size_t>(root_storage(g, b).index)] = {};
  }
  return lives;
}

class MemoryCheck {
 public:
  MemoryCheck(const Schedule& schedule, Violations& out)
      : s_(schedule), g_(schedule.graph), plan_(*schedule.plan), out_(out), lives_(lives_of(schedule)) {
    for (const InPlaceCollective& c : in_place_collectives(schedule)) in_place_.emplace(c.result, c.operand);
  }

  void run() {
    if (plan_.live_peak_bytes > plan_.arena_bytes + plan_.comm_bytes) {
      out_.add(kMemory, "plan", "live peak of {} bytes exceeds the planned {}", plan_.live_peak_bytes,
               plan_.arena_bytes + plan_.comm_bytes);
    }
    std::vector<std::vector<StorageId>> born(s_.nodes.size()), dying(s_.nodes.size());
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const StorageId id{static_cast<std::int32_t>(i)};
      const StorageKind kind = g_[id].kind;
      if (lives_[i].first < 0 || (kind != StorageKind::activation && kind != StorageKind::comm)) continue;
      if (root_storage(g_, id) != id) continue;
      if (!place(id)) continue;
      born[static_cast<std::size_t>(lives_[i].first)].push_back(id);
      dying[static_cast<std::size_t>(lives_[i].last)].push_back(id);
    }
    for (std::size_t step = 0; step < born.size(); ++step) {
      std::vector<StorageId> handed_over;
      for (StorageId id : born[step]) birth(static_cast<int>(step), id, handed_over);
      for (StorageId id : dying[step]) {
        auto& active = active_[at(id).space];
        auto [it, end] = active.equal_range(at(id).offset);
        while (it != end) it = it->second == id ? active.erase(it) : std::next(it);
      }
    }
  }

 private:
  const Life& life(StorageId id) const { return lives_[static_cast<std::size_t>(id.index)]; }
  const Placement& at(StorageId id) const { return plan_.placements.at(id); }
  const std::string& name(StorageId id) const { return g_[id].name; }

  // Whether the storage has a place, and whether that is valid on its own.
  bool place(StorageId id) {
    const auto it = plan_.placements.find(id);
    if (it == plan_.placements.end()) {
      out_.add(kMemory, name(id), "has no place in the plan");
      return false;
    }
    const Placement& p = it->second;
    const bool comm = g_[id].kind == StorageKind::comm;
    const std::int64_t need = bounds(g_[id].bytes).max, space = comm ? plan_.comm_bytes : plan_.arena_bytes;
    if ((p.space == MemorySpace::comm) != comm) out_.add(kMemory, name(id), "lies in the wrong segment");
    if (p.bytes < need) out_.add(kMemory, name(id), "has {} bytes but needs up to {}", p.bytes, need);
    if (p.offset < 0 || p.bytes < 0 || p.offset > space - p.bytes)
      out_.add(kMemory, name(id), "bytes [{}, {}) exceed the segment of {}", p.offset, p.offset + p.bytes,
               space);
    if (comm && p.offset % kCommAlignment != 0)
      out_.add(kMemory, name(id), "offset {} is not a multiple of {}", p.offset, kCommAlignment);
    if (p.first_step > life(id).first || p.last_step < life(id).last) {
      out_.add(kMemory, name(id), "is planned for steps {}..{} but lives in {}..{}", p.first_step,
               p.last_step, life(id).first, life(id).last);
    }
    return p.bytes > 0;
  }

  bool is_output(StorageId id) const {
    return std::any_of(g_.outputs.begin(), g_.outputs.end(),
                       [&](const GraphOutput& o) { return root_storage(g_, o.buffer) == id; });
  }

  static bool overlap(const Placement& a, const Placement& b) {
    return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  // Storages that live to the end are read after the last step.
  bool may_take(int step, StorageId from, StorageId to) const {
    return life(from).last == step && !is_output(from) &&
           may_reuse_in_place(g_, s_.nodes[static_cast<std::size_t>(step)], from, to) &&
           at(from).offset == at(to).offset;
  }

  // Both share one place until the release of the collective.
  bool is_operand_of(StorageId from, StorageId to) const {
    const auto it = in_place_.find(to);
    return it != in_place_.end() && it->second == from && at(from).offset == at(to).offset;
  }

  void birth(int step, StorageId id, std::vector<StorageId>& handed_over) {
    auto& active = active_[at(id).space];
    auto it = active.lower_bound(at(id).offset);
    if (it != active.begin()) --it;
    while (it != active.end() && it->first < at(id).offset + at(id).bytes) {
      if (!overlap(at(it->second), at(id))) {
        ++it;
      } else if (is_operand_of(it->second, id)) {
        ++it;
      } else if (may_take(step, it->second, id)) {
        handed_over.push_back(it->second);
        it = active.erase(it);
      } else {
        report(it->second, id);
        ++it;
      }
    }
    for (StorageId gone : handed_over) {
      if (overlap(at(gone), at(id)) && !may_take(step, gone, id)) report(gone, id);
    }
    active.emplace(at(id).offset, id);
  }

  void report(StorageId a, StorageId b) {
    out_.add(kMemory, name(b),
             "shares bytes with '{}', which lives in steps {}..{}, while it lives in {}..{}", name(a),
             life(a).first, life(a).last, life(b).first, life(b).last);
  }

  const Schedule& s_;
  const Graph& g_;
  const MemoryPlan& plan_;
  Violations& out_;
  std::vector<Life> lives_;
  std::map<StorageId, StorageId> in_place_;                               // result -> operand
  std::map<MemorySpace, std::multimap<std::int64_t, StorageId>> active_;  // by offset
};

}  // namespace

void verify_memory(const Schedule& schedule, Violations& out) {
  if (schedule.plan) MemoryCheck(schedule, out).run();
}

}  // namespace braid::ir
