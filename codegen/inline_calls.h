// Replaces called regions by their operations:
//
//   before   %r = call { %a = f(x)  yield %a }        after   %a = f(x)   %r = copy(%a)
//
// The memory plan stays valid: it treats the inside of a region as in use while the region runs.
#pragma once

#include "ir/schedule.h"

namespace braid::codegen {

bool has_calls(const ir::Schedule& schedule);
// Other kinds of regions are unchanged.
ir::Schedule inline_calls(const ir::Schedule& schedule);

}  // namespace braid::codegen
