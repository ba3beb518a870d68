// What the search for a split is told of the program on one device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "ir/schedule.h"
#include "split/candidates.h"

namespace braid {

// Of the attention kernels of the program on one device, in equal shares by the names of their nodes: BoundOptions
// (split/bounds.h).
std::map<std::string, double> attention_flops(const ir::Schedule& plain, const analysis::CostModel& costs);
// Of the program on one device, as it was lowered.
std::vector<split::ProductJoin> product_joins(ir::Schedule plain);

}  // namespace braid
