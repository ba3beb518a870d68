// Facts about the program on one device that the search for a split needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "ir/schedule.h"
#include "split/candidates.h"

namespace braid {

// Returns the floating-point operations of the attention kernels by node name. A kernel made of several nodes
// counts in equal shares for them (BoundOptions in split/bound_search.h).
std::map<std::string, double> attention_flops(const ir::Schedule& plain, const analysis::CostModel& costs);
// Finds the loops that combine several elements of a product's result (split/product_join.h). `plain` is the
// program on one device, as it was lowered.
std::vector<split::ProductJoin> product_joins(ir::Schedule plain);

}  // namespace braid
