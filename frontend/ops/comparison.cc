// Comparisons: bool results.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower(OpContext& c) {
  c.set_output(0, binary(c.lowering(), code, c.input(0), c.input(1)));
}

const OpSpec kOps[] = {
    {"", "Equal", 7, kNewestOpset, kAllTypes, lower<OpCode::eq>},
    {"", "Greater", 7, kNewestOpset, kNumbers, lower<OpCode::gt>},
    {"", "GreaterOrEqual", 12, kNewestOpset, kNumbers, lower<OpCode::ge>},
    {"", "Less", 7, kNewestOpset, kNumbers, lower<OpCode::lt>},
    {"", "LessOrEqual", 12, kNewestOpset, kNumbers, lower<OpCode::le>},
};

}  // namespace

std::span<const OpSpec> comparison_ops() { return kOps; }

}  // namespace braid::frontend
