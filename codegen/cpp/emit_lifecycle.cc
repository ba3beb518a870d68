// The tables of a checked program: the plan's lifetimes and the touches of each step. The touches come from
// the operations' effects, not from the plan, so that one can be checked against the other.
#include <fmt/format.h>

#include <map>
#include <set>

#include "codegen/cpp/program_emitter.h"
#include "ir/comm_buffer.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/in_place_collectives.h"

namespace braid::codegen::cpp {

using namespace ir;

void ProgramEmitter::find_lifecycle() {
  const Graph& graph = s_.graph;
  for (const CommBufferDecision& d : comm_buffer_decisions(s_)) {
    for (OpId copy : d.copies) copies_.emplace(copy, bytes_copied_by(graph, copy));
  }
  std::map<StorageId, int> index;
  const std::map<StorageId, StorageId> shared = shared_places(s_);
  for (const auto& [storage, place] : plan_.placements) {
    const StorageKind kind = graph[storage].kind;
    if (kind != StorageKind::activation && kind != StorageKind::comm)
      continue;  // moved to the caller's memory
    if (shared.contains(storage)) continue;
    index.emplace(storage, static_cast<int>(planned_buffers_.size()));
    planned_buffers_.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}},", c_string(graph[storage].name),
                                           place.space == MemorySpace::comm, place.offset, place.bytes,
                                           place.first_step, place.last_step));
  }
  for (const auto& [result, operand] : shared) index.emplace(result, index.at(operand));
  struct Touch {
    bool reads = false, writes = false;
  };
  std::map<OpId, std::set<int>> open;  // collectives in flight: what peers may write
  for (std::size_t step = 0; step < s_.nodes.size(); ++step) {
    std::map<int, Touch> touches;
    for (OpId op : ops_of(s_.nodes[step])) {
      const Effects e = effects(graph, op);
      const auto touch = [&](StorageId s, bool reads, bool writes) {
        const auto found = index.find(s);
        if (found == index.end()) return;
        touches[found->second].reads |= reads;
        touches[found->second].writes |= writes;
      };
      for (const Access& a : e.accesses) touch(a.region.storage, a.reads(), a.writes());
      for (StorageId s : e.inside) touch(s, true, true);
      if (graph[op].as<RegionKernel>() != nullptr) continue;
      for (const CommEffect& c : e.comm) {
        if (c.phase == CommPhase::wait) open.erase(c.start);
        if (c.phase != CommPhase::start || c.blocking) continue;
        for (const Access& a : e.accesses) {
          const auto found = index.find(a.region.storage);
          if (a.writes() && found != index.end()) open[op].insert(found->second);
        }
      }
    }
    planned_steps_.push_back(fmt::format("{{{}, {}, {}}},", c_string(name_of(s_, static_cast<int>(step))),
                                         planned_touches_.size(), touches.size()));
    for (const auto& [buffer, t] : touches) {
      bool in_flight = false;
      for (const auto& [start, buffers] : open) in_flight |= buffers.contains(buffer);
      planned_touches_.push_back(fmt::format("{{{}, {}, {}, {}}},", buffer, t.reads, t.writes, in_flight));
    }
  }
}

void ProgramEmitter::write_lifecycle(Writer& w) const {
  const auto table = [&](const char* type, const char* name, const std::vector<std::string>& rows) {
    if (rows.empty()) return std::string("{}");
    w.open(fmt::format("constexpr {} {}[] = {{", type, name));
    for (const std::string& row : rows) w.line(row);
    w.close("};");
    return std::string(name);
  };
  w.line("// When each buffer lives, and what each step touches.");
  const std::string buffers = table("PlannedBuffer", "kPlannedBuffers", planned_buffers_);
  const std::string touches = table("PlannedTouch", "kPlannedTouches", planned_touches_);
  const std::string steps = table("PlannedStep", "kPlannedSteps", planned_steps_);
  w.line(fmt::format("constexpr LifecyclePlan kLifecycle = {{{}, {}, {}, {}, {}}};", buffers, touches, steps,
                     plan_.arena_bytes, plan_.comm_bytes));
}

}  // namespace braid::codegen::cpp
