// Operators that pass their input on: Identity, Dropout in inference.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_identity(OpContext& c) {
  const Value& x = c.value(0);
  if (x.sequence || x.empty_optional) return c.set_output(0, x);
  c.set_output(0, c.input(0));
}

void lower_dropout(OpContext& c) {
  if (c.has_input(2)) {
    const std::optional<double> training = c.constant_scalar(2);
    if (!training) {
      c.fail_unknown(2, errors::kUnsupportedForm, "training_mode is known only at run time",
                     "export the model for inference");
    }
    if (*training != 0)
      c.fail(errors::kUnsupportedForm, "training_mode is true", "export the model for inference");
  }
  c.set_output(0, c.input(0));
  if (!c.has_output(1)) return;
  // The mask has been a bool since version 10, and of the input's type before.
  c.set_output(1, c.version() < 10 ? fill(c.lowering(), c.sizes(0), c.dtype(0), 1.0)
                                   : fill(c.lowering(), c.sizes(0), DType::boolean, std::int64_t{1}));
}

}  // namespace

std::span<const OpSpec> identity_ops() {
  static const OpSpec ops[] = {
      {"", "Dropout", 1, kNewestOpset, kFloats, lower_dropout, work::view(), rule::kDropout, kNoState,
       kNoSizes},
      {"", "Identity", 1, kNewestOpset, kAllTypes | kStorage, lower_identity, work::view(), rule::kUnchanged,
       carries({{0, 0}}), size_rule::kIdentity},
  };
  return ops;
}

}  // namespace braid::frontend
