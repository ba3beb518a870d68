// Removes unreferenced entries: operations in no node or region; buffers that no operation, input or output
// of the graph names; storages without buffers. The remaining ids are renumbered in the old order; names
// stay.
#pragma once

#include "ir/schedule.h"

namespace braid::passes {

// Returns whether something was removed. The memory plan, if any, is carried over.
bool compact(ir::Schedule& schedule);

}  // namespace braid::passes
