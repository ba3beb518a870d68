// Control flow: either the condition is known while compiling (then lower_graph.cc takes the branch), or the model
// is refused.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

void lower_if(OpContext& c) {
  c.fail_unknown(0, kUnsupportedForm, "its condition is known only at run time",
                 "conditions may depend only on sizes and constants: use Where to choose between two values");
}

const OpSpec kOps[] = {{"", "If", 1, kNewestOpset, kBool, lower_if}};

}  // namespace

std::span<const OpSpec> control_flow_ops() { return kOps; }

}  // namespace braid::frontend
