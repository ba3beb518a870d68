// Regions that are only called, as plain operations in their place:
//
//   before   %r = call { %a = f(x)  yield %a }        after   %a = f(x)   %r = copy(%a)
//
// The memory plan stays as it is: it counts the inside of a region as in use while the region runs.
#pragma once

#include "ir/schedule.h"

namespace braid::codegen {

bool has_calls(const ir::Schedule& schedule);
// Other kinds of regions stay.
ir::Schedule inline_calls(const ir::Schedule& schedule);

}  // namespace braid::codegen
