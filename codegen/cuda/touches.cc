#include "codegen/cuda/touches.h"

namespace braid::codegen::cuda {
namespace {

bool same_bytes(const ir::Graph& graph, const Touch& a, const Touch& b) {
  if (a.access.region.storage == b.access.region.storage)
    return ir::may_overlap(graph, a.access.view, b.access.view);
  if (!a.place || !b.place || a.place->base != b.place->base) return false;
  if (a.place->base != MemoryMap::Place::Base::arena && a.place->base != MemoryMap::Place::Base::segment)
    return false;
  return a.place->offset < b.place->offset + b.place->bytes &&
         b.place->offset < a.place->offset + a.place->bytes;
}

}  // namespace

std::vector<Touch> touches_of(const ir::Graph& graph, const Unit& unit, const MemoryMap& memory) {
  std::vector<Touch> out;
  for (ir::OpId op : unit.ops) {
    for (ir::Access& a : ir::effects(graph, op).accesses) {
      std::optional<MemoryMap::Place> place = memory.place(a.region.storage);
      if (place) out.push_back({std::move(a), place});
    }
  }
  return out;
}

Conflict conflict(const ir::Graph& graph, const std::vector<Touch>& later,
                  const std::vector<Touch>& earlier) {
  Conflict found = Conflict::none;
  for (const Touch& l : later) {
    for (const Touch& e : earlier) {
      if (!l.access.writes() && !e.access.writes()) continue;
      if (!same_bytes(graph, l, e)) continue;
      if (e.access.writes()) return Conflict::other;
      found = Conflict::overwrites_read;
    }
  }
  return found;
}

}  // namespace braid::codegen::cuda
