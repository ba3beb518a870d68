// Facts of plans that were found (candidates.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "split/bound_search.h"
#include "split/candidates.h"
#include "split/kept_lines.h"
#include "split/memory_rows.h"
#include "split/split_space.h"

namespace braid::split {

// Fills in the facts about a choice that reports show: layers, conversions, replicated operators.
void describe(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs, FoundPlan& details);
// Returns an upper bound on the bytes that any plan takes on a device: those of all tensors at once.
std::int64_t bytes_of_all(const Graph& graph, const SplitCosts& costs);
// Returns the bytes of a choice on a rank, at the sizes where they are the most; 0 without rows.
std::int64_t bytes_counted(const std::vector<MemoryRows>& rows, const Assignment& choice);
// Reports the bytes of the smallest plan, and its largest tensors, unless more were reported at other sizes.
void tell_least(const MemoryRows& rows, const LeastMemory& least, FoundPlans& result);
BoundOptions bound_options(const SearchOptions& options, const Mesh& mesh,
                           const std::map<std::string, double>& attention_flops);

}  // namespace braid::split
