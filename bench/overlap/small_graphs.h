// Graphs so small that the shortest of all their orders is found by trying them, up to what cannot be better.
#pragma once

#include <span>
#include <string>

#include "analysis/costs/cost_model.h"
#include "bench/overlap/table.h"
#include "ir/schedule.h"

namespace braid::bench {

// A random program of at most nine nodes: kernels, starts and waits over two communicators, with explicit
// costs, in an order that keeps its dependencies. The same for the same seed everywhere.
ir::Schedule random_small_graph(std::uint64_t seed);

// The shortest makespan of all orders, collectives in any order too.
analysis::Time shortest_makespan(const ir::Schedule& schedule, const analysis::CostModel& costs);

// How often and by how much each scheduler misses the optimum, on the first `cases` random graphs on which
// list scheduling by the critical path alone misses it.
std::string small_graphs_table(std::span<const Scheduler> schedulers, int cases);

}  // namespace braid::bench
