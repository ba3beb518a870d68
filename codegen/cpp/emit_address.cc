// The addresses of buffers, as text.
#include <fmt/format.h>

#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

bool ProgramEmitter::has_memory(BufferId buffer) const {
  const StorageId root = root_storage(s_.graph, buffer);
  const StorageKind kind = s_.graph[root].kind;
  return (kind != StorageKind::activation && kind != StorageKind::comm) || plan_.placements.contains(root);
}

std::string ProgramEmitter::bytes_at(BufferId buffer, Expr elements) {
  const Graph& graph = s_.graph;
  const MemoryRegion where = region(graph, buffer);
  const Storage& storage = graph[where.storage];
  const Expr inside = where.offset + elements * size_of(graph[buffer].dtype);
  std::string base, place_name;
  switch (storage.kind) {
    case StorageKind::input: {
      const int k = inputs_.at(where.storage);
      used_inputs_[k] = true;
      base = fmt::format("in{}", k);
      break;
    }
    case StorageKind::output: {
      const int k = outputs_.at(where.storage);
      used_outputs_[k] = true;
      base = fmt::format("out{}", k);
      break;
    }
    case StorageKind::constant: {
      const WeightPlace& place = weights_.places.at(where.storage);
      base = place.per_rank ? "rank_weights_" : "weights_";
      place_name =
          slots_.of(graph, where.storage, place.offset, place.per_rank ? "weights of the rank" : "weights");
      break;
    }
    case StorageKind::activation:
    case StorageKind::comm: {
      const auto place = plan_.placements.find(where.storage);
      internal_check(place != plan_.placements.end(), "codegen: storage '{}' has no place in the memory plan",
                     storage.name);
      const bool comm = place->second.space == MemorySpace::comm;
      base = comm ? "segment_" : "arena_";
      place_name = slots_.of(graph, where.storage, place->second.offset, comm ? "segment" : "arena");
      break;
    }
  }
  if (place_name.empty()) return base + "|" + size(inside);
  return base + "|" + place_name + (inside.is_constant(0) ? "" : " + " + size(inside));
}

std::string ProgramEmitter::address(BufferId buffer, Expr elements, bool constant) {
  const std::string where = bytes_at(buffer, elements);
  const std::size_t bar = where.find('|');
  const std::string base = where.substr(0, bar), offset = where.substr(bar + 1);
  const bool read_only = base == "weights_" || base == "rank_weights_";
  return fmt::format("at<{}{}>({}, {})", constant || read_only ? "const " : "",
                     storage_type(s_.graph[buffer].dtype), base, offset);
}

// Inputs and outputs are the caller's memory and distinct, except for declared aliases, which share a root
// storage.
bool ProgramEmitter::overlap(BufferId a, BufferId b) const {
  const Graph& graph = s_.graph;
  const MemoryRegion ra = region(graph, a), rb = region(graph, b);
  if (ra.storage == rb.storage) return may_overlap(ra, rb);
  const auto pa = plan_.placements.find(ra.storage), pb = plan_.placements.find(rb.storage);
  if (pa == plan_.placements.end() || pb == plan_.placements.end()) return false;
  const Placement &x = pa->second, &y = pb->second;
  return x.space == y.space && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

}  // namespace braid::codegen::cpp
