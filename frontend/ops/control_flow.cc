// Control flow: either the condition or the number of iterations is known while compiling (then lower_graph.cc takes
// the branch or copies the body), or the model is refused.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

void lower_if(OpContext& c) {
  c.fail_unknown(0, kUnsupportedForm, "its condition is known only at run time",
                 "conditions may depend only on sizes and constants: use Where to choose between two values");
}

// frontend/unroll.cc lowers them with their bodies.
void lower_loop(OpContext& c) { c.fail(kUnsupportedForm, "it cannot be lowered without its body"); }

const OpSpec kOps[] = {
    {"", "If", 1, kNewestOpset, kBool, lower_if},
    {"", "Loop", 1, kNewestOpset, kAllTypes, lower_loop},
    {"", "Scan", 8, kNewestOpset, kAllTypes, lower_loop},
};

}  // namespace

std::span<const OpSpec> control_flow_ops() { return kOps; }

}  // namespace braid::frontend
