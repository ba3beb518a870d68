// Comparisons: bool results.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

template <OpCode code>
void lower(OpContext& c) {
  c.set_output(0, binary(c.lowering(), code, c.input(0), c.input(1)));
}

}  // namespace

std::span<const OpSpec> comparison_ops() {
  static const OpSpec ops[] = {
      elementwise("Equal", 7, kAllTypes, lower<OpCode::eq>, 1, rule::kElementwise, size_rule::kEqual),
      elementwise("Greater", 7, kNumbers, lower<OpCode::gt>, 1, rule::kElementwise, size_rule::kGreater),
      elementwise("GreaterOrEqual", 12, kNumbers, lower<OpCode::ge>, 1, rule::kElementwise,
                  size_rule::kGreaterOrEqual),
      elementwise("Less", 7, kNumbers, lower<OpCode::lt>, 1, rule::kElementwise, size_rule::kLess),
      elementwise("LessOrEqual", 12, kNumbers, lower<OpCode::le>, 1, rule::kElementwise,
                  size_rule::kLessOrEqual),
  };
  return ops;
}

}  // namespace braid::frontend
