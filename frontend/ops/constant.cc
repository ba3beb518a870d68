// Tensors that are part of the model or consist of one value.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_constant(OpContext& c) {
  if (std::optional<Tensor> tensor = c.tensor_attribute("value")) {
    c.set_output(0, std::move(*tensor));
  } else if (c.has_attribute("value_int")) {
    c.set_output(0, integer_tensor(DType::i64, {}, {c.int_attribute("value_int")}));
  } else if (const auto ints = c.ints_attribute("value_ints")) {
    c.set_output(0, integer_tensor(DType::i64, {static_cast<std::int64_t>(ints->size())}, *ints));
  } else if (c.has_attribute("value_float")) {
    c.set_output(0, float_tensor({}, {c.float_attribute("value_float", 0)}));
  } else if (const auto floats = c.floats_attribute("value_floats")) {
    c.set_output(0, float_tensor({static_cast<std::int64_t>(floats->size())}, *floats));
  } else {
    c.fail(errors::kUnsupportedType, "strings and sparse tensors are not supported");
  }
}

void lower_constant_of_shape(OpContext& c) {
  const std::vector<Expr> sizes = c.shape_values(0, "the sizes");
  for (const Expr& s : sizes) {
    if (ir::bounds(s).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("size {} may be negative", to_string(s)));
  }
  const std::optional<Tensor> value = c.tensor_attribute("value");
  if (value && value->count() != 1)
    c.fail(errors::kInvalidAttribute, "attribute 'value' must have one element");
  c.set_output(0, fill(c.lowering(), sizes, value ? value->dtype : DType::f32,
                       value ? literal_at(*value, 0) : ir::Literal(0.0)));
}

}  // namespace

std::span<const OpSpec> constant_ops() {
  static const OpSpec ops[] = {
      {"", "Constant", 1, kNewestOpset, kAllTypes | kStorage, lower_constant, work::constant(),
       sharding::replicated("a constant: its readers take it in any state"), kNoState, kNoSizes},
      {"", "ConstantOfShape", 9, kNewestOpset, kAllTypes | kStorage, lower_constant_of_shape,
       work::pointwise(0), rule::kConstantOfShape, kNoState, size_rule::kConstantOfShape},
  };
  return ops;
}

}  // namespace braid::frontend
