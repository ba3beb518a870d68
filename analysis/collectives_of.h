// The collectives of a schedule, also those inside regions, in the order in which they start.
#pragma once

#include <vector>

#include "ir/schedule.h"

namespace braid::analysis {

inline void add_collectives(const ir::Graph& graph, ir::OpId op, std::vector<ir::OpId>& out) {
  if (graph[op].as<ir::CollectiveKernel>() != nullptr) out.push_back(op);
  if (const auto* region = graph[op].as<ir::RegionKernel>()) {
    for (const ir::Region& r : region->regions) {
      for (const ir::OpId inner : r.ops) add_collectives(graph, inner, out);
    }
  }
}

inline std::vector<ir::OpId> collectives_of(const ir::Schedule& schedule) {
  std::vector<ir::OpId> out;
  for (const ir::OpId op : ir::execution_order(schedule)) add_collectives(schedule.graph, op, out);
  return out;
}

}  // namespace braid::analysis
