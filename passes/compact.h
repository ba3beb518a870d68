// Removes what nothing refers to any more: operations that are in no node (nor region), buffers that no
// operation and no input or output of the graph names, storages without buffers. Ids are handed out anew,
// in the old order; names stay.
#pragma once

#include "ir/schedule.h"

namespace braid::passes {

// True if something was removed. The memory plan, if any, is carried over.
bool compact(ir::Schedule& schedule);

}  // namespace braid::passes
