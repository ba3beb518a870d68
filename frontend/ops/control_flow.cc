// If, Loop and Scan are lowered with their bodies. frontend/lower_graph.cc takes the branch of an If whose
// condition is known, frontend/unroll.cc copies bodies, and frontend/regions.cc makes regions of bodies whose
// runs are decided at run time.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_without_body(OpContext& c) {
  c.fail(errors::kUnsupportedForm, "it cannot be lowered without its body");
}

constexpr const char* kBody = "the bodies of control flow are not split";

}  // namespace

std::span<const OpSpec> control_flow_ops() {
  static const OpSpec ops[] = {
      {"", "If", 1, kNewestOpset, kBool, lower_without_body, work::control(), sharding::replicated(kBody),
       kNoState, kNoSizes},
      {"", "Loop", 1, kNewestOpset, kAllTypes, lower_without_body, work::control(),
       sharding::replicated(kBody), kNoState, kNoSizes},
      {"", "Scan", 8, kNewestOpset, kAllTypes, lower_without_body, work::control(),
       sharding::replicated(kBody), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
