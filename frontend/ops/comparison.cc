// Comparisons: bool results.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower(OpContext& c) {
  c.set_output(0, binary(c.lowering(), code, c.input(0), c.input(1)));
}

const OpSpec kOps[] = {
    {"", "Equal", 7, kNewestOpset, kAllTypes, lower<OpCode::eq>, work::pointwise(1)},
    {"", "Greater", 7, kNewestOpset, kNumbers, lower<OpCode::gt>, work::pointwise(1)},
    {"", "GreaterOrEqual", 12, kNewestOpset, kNumbers, lower<OpCode::ge>, work::pointwise(1)},
    {"", "Less", 7, kNewestOpset, kNumbers, lower<OpCode::lt>, work::pointwise(1)},
    {"", "LessOrEqual", 12, kNewestOpset, kNumbers, lower<OpCode::le>, work::pointwise(1)},
};

}  // namespace

std::span<const OpSpec> comparison_ops() { return kOps; }

}  // namespace braid::frontend
