#include "codegen/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/scalar.h"
#include "ir/capacity.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/fused_loops.h"

namespace braid::codegen::cuda {
namespace {

void flatten(const ir::ScheduleNode& node, std::vector<Unit>& out) {
  if (node.kind == ir::ScheduleNode::Kind::grouped) {
    for (const ir::ScheduleNode& member : node.members) flatten(member, out);
  } else {
    out.push_back({ir::ops_of(node), node.kind == ir::ScheduleNode::Kind::fused, {}, -1, node.name});
  }
}

}  // namespace

std::vector<Unit> units_of(const ir::Schedule& schedule) {
  std::vector<Unit> out;
  const std::vector<std::vector<ir::BufferId>> local = ir::local_buffers(schedule);
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    const std::size_t first = out.size();
    flatten(schedule.nodes[n], out);
    if (out.size() == first + 1 && out.back().fused) out.back().local = local[n];
  }
  return out;
}

MemoryMap::MemoryMap(const ir::Schedule& schedule, const std::vector<Unit>& units) : graph_(schedule.graph) {
  for (std::size_t k = 0; k < graph_.inputs.size(); ++k) {
    const ir::StorageId root = ir::root_storage(graph_, graph_.inputs[k].buffer);
    places_.emplace(root, Place{Place::Base::input, static_cast<int>(k), 0, 0});
  }
  for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
    const ir::BufferId buffer = graph_.outputs[k].buffer;
    const ir::StorageId root = ir::root_storage(graph_, buffer);
    const auto index = static_cast<int>(k);
    if (const auto known = places_.find(root);
        known != places_.end() && known->second.base == Place::Base::input) {
      const ir::MemoryRegion out = ir::region(graph_, buffer);
      const std::vector<ir::Expr> strides = ir::strides_of(graph_, buffer);
      const bool whole =
          out.offset.is_constant(0) && (ir::is_contiguous(graph_[buffer].sizes, strides) ||
                                        ir::has_capacity_strides(graph_[buffer].sizes, strides));
      ir::internal_check(whole, "output '{}' is a part of an input", graph_.outputs[k].name);
      aliased_[index] = known->second.index;
    } else if (graph_[root].kind == ir::StorageKind::output && known == places_.end()) {
      places_[root] = {Place::Base::output, index, 0, 0};
    } else {
      copies_.push_back({index, buffer});
    }
  }
  if (schedule.plan) {
    for (const auto& [storage, p] : schedule.plan->placements) {
      const bool arena = p.space == ir::MemorySpace::arena;
      places_[storage] = {arena ? Place::Base::arena : Place::Base::segment, 0, p.offset, p.bytes};
    }
    arena_bytes_ = schedule.plan->arena_bytes;
    segment_bytes_ = schedule.plan->comm_bytes;
  }
  // Constants that are read, in the order of their storages.
  std::set<ir::StorageId> read;
  const auto use = [&](ir::StorageId s) {
    if (s.valid() && graph_[s].kind == ir::StorageKind::constant) read.insert(s);
  };
  for (const Unit& unit : units) {
    for (ir::OpId op : unit.ops) {
      for (const ir::Access& a : ir::effects(graph_, op).accesses) use(a.region.storage);
    }
  }
  for (const OutputCopy& copy : copies_) use(ir::root_storage(graph_, copy.buffer));
  weights_ = layout_weights(graph_, {read.begin(), read.end()});
  for (const auto& [storage, w] : weights_.places) {
    places_[storage] = {w.per_rank ? Place::Base::rank_weights : Place::Base::weights, 0, w.offset, w.bytes};
  }
}

std::optional<MemoryMap::Place> MemoryMap::place(ir::StorageId root) const {
  const auto at = places_.find(root);
  return at == places_.end() ? std::nullopt : std::optional(at->second);
}

MemoryMap::Address MemoryMap::address(ir::BufferId buffer, ir::Expr elements) const {
  const ir::MemoryRegion r = ir::region(graph_, buffer);
  const std::optional<Place> p = place(r.storage);
  ir::internal_check(p.has_value(), "buffer '{}' has no memory: the schedule has no plan for it",
                     graph_[buffer].name);
  const ir::Expr inside = r.offset + elements * ir::size_of(graph_[buffer].dtype);
  if (p->base == Place::Base::input || p->base == Place::Base::output) return {*p, host_expr(inside)};
  constexpr const char* kNames[] = {"arena", "segment", "weights", "weights of the rank"};
  const std::string& slot =
      slots_.of(graph_, r.storage, p->offset, kNames[static_cast<std::size_t>(p->base)]);
  return {*p, inside.is_constant(0) ? slot : slot + " + " + host_operand(inside)};
}

std::string MemoryMap::pointer(ir::BufferId buffer, ir::Expr elements) const {
  const Address a = address(buffer, elements);
  constexpr const char* kBases[] = {"arena_", "segment_", "weights_", "rank_weights_", "inputs_", "outputs_"};
  std::string base = kBases[static_cast<std::size_t>(a.place.base)];
  if (a.place.base == Place::Base::input || a.place.base == Place::Base::output)
    base += fmt::format("[{}]", a.place.index);
  return fmt::format("at<{}>({}, {})", memory_type(graph_[buffer].dtype), base, a.offset);
}

std::string MemoryMap::segment_offset(ir::BufferId buffer, ir::Expr elements) const {
  const Address a = address(buffer, elements);
  ir::internal_check(a.place.base == Place::Base::segment, "buffer '{}' lies outside of the segment",
                     graph_[buffer].name);
  return a.offset;
}

}  // namespace braid::codegen::cuda
