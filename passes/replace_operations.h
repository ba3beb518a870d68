// Operations that take the place of another, wherever it stands: at the top, in a group or in a region.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/id_vector.h"
#include "ir/schedule.h"

namespace braid::passes {

// Calls `replace` for each operation that is no member of a fused node, in order, and puts the returned
// operations, in order, in its place. nullopt: the operation stays as it is. The last returned operation must
// be the original one, which may now compute something else. Returns whether anything was replaced; then the
// plan is dropped.
bool replace_operations(ir::Schedule& schedule,
                        const std::function<std::optional<std::vector<ir::OpId>>(ir::OpId)>& replace);

// By operation: whether it stands in a region.
ir::IdVector<ir::OpId, bool> in_regions(const ir::Graph& graph);

}  // namespace braid::passes
