// Parts of the search for candidates (candidates.h) that searches for one program and for several share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "split/bounds.h"
#include "split/candidates.h"
#include "split/keep.h"
#include "split/memory.h"
#include "split/space.h"

namespace braid::split {

// What people want to know about a choice: layers, conversions, what is replicated.
void describe(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs, FoundPlan& details);
// Of all tensors at once. No plan takes more on a device.
std::int64_t bytes_of_all(const Graph& graph, const SplitCosts& costs);
// Of a choice on a rank, at the sizes where they are the most; 0 without rows.
std::int64_t bytes_counted(const std::vector<MemoryRows>& rows, const std::vector<int>& choice);
// What the smallest plan takes, and of what, unless it takes more at other sizes that were told.
void tell_least(const MemoryRows& rows, const LeastMemory& least, FoundPlans& result);
BoundOptions bound_options(const SearchOptions& options, const Mesh& mesh,
                           const std::map<std::string, double>& attention_flops);

}  // namespace braid::split
