// Changes of the element type.
#include "frontend/ops/small_types.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

CastOptions options_of(const OpContext& c) {
  CastOptions options{c.int_attribute("saturate", 1) != 0, PowerRounding::up};
  const std::string mode = c.string_attribute("round_mode", "up");
  if (mode == "down") {
    options.rounding = PowerRounding::down;
  } else if (mode == "nearest") {
    options.rounding = PowerRounding::nearest;
  } else if (mode != "up") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'round_mode' is '{}', expected up, down or nearest", mode));
  }
  return options;
}

void lower_cast(OpContext& c) {
  c.set_output(0, cast_tensor(c.lowering(), c.input(0), c.dtype_of(c.int_attribute("to")), options_of(c)));
}

void lower_cast_like(OpContext& c) {
  c.set_output(0, cast_tensor(c.lowering(), c.input(0), c.dtype(1), options_of(c)));
}

}  // namespace

std::span<const OpSpec> cast_ops() {
  static const OpSpec ops[] = {
      elementwise("Cast", 6, kAllTypes | kStorage, lower_cast, 1, rule::kFirstOnly, size_rule::kCast),
      elementwise("CastLike", 15, kAllTypes | kStorage, lower_cast_like, 1, rule::kFirstOnly,
                  size_rule::kCastLike),
  };
  return ops;
}

}  // namespace braid::frontend
