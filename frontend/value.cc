#include "frontend/value.h"

#include <algorithm>

#include "frontend/ops/small_types.h"

namespace braid::frontend {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::TensorBox;

const std::optional<Elements>& elements_of(Value& value) {
  if (value.elements || !value.constant || is_float(value.dtype) || is_storage(value.dtype))
    return value.elements;
  const Tensor& tensor = *value.constant;
  if (!tensor.data.same_on_all_ranks() || tensor.count() > kMaxElements) return value.elements;
  Elements elements{tensor.sizes, {}};
  for (std::int64_t k = 0; k < tensor.count(); ++k) elements.values.push_back(integer_at(tensor, k));
  value.elements = std::move(elements);
  return value.elements;
}

TensorBox fill(ir::Lowering& lowering, std::vector<Expr> sizes, DType dtype, ir::Literal literal) {
  return lowering.generate(std::move(sizes), [&](BodyBuilder& body, std::span<const Expr>) {
    return body.constant(dtype, literal);
  });
}

namespace {

// Expressions that are not constant, chosen by index: [a, b, c][i] = i == 0 ? a : i == 1 ? b : c.
TensorBox symbolic_tensor(const Elements& elements, DType dtype, ir::Lowering& lowering) {
  const std::vector<Expr> sizes(elements.sizes.begin(), elements.sizes.end());
  return lowering.generate(sizes, [&](BodyBuilder& body, std::span<const Expr> index) {
    Expr linear = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) linear = linear * sizes[k] + index[k];
    const auto scalar = [&](Expr e) {
      if (dtype == DType::boolean) return body.constant(dtype, e.constant());
      if (e.is_constant()) return body.constant(dtype, e.constant());
      return body.index(e, dtype);
    };
    const std::size_t count = elements.values.size();
    ir::ValueId result = scalar(elements.values[count - 1]);
    for (std::size_t k = count - 1; k-- > 0;) {
      const ir::ValueId here = body.binary(ir::OpCode::eq, body.index(linear),
                                           body.constant(DType::i64, static_cast<std::int64_t>(k)));
      result = body.where(here, scalar(elements.values[k]), result);
    }
    return result;
  });
}

}  // namespace

namespace {

TensorBox made(Value& value, ir::Lowering& lowering) {
  if (value.progression) {
    const Progression& p = *value.progression;
    return lowering.generate(value.sizes, [&](BodyBuilder& body, std::span<const Expr> index) {
      Expr linear = 0;
      for (std::size_t k = 0; k < index.size(); ++k)
        if (!value.sizes[k].is_constant(1)) linear = linear * value.sizes[k] + index[k];
      return body.index(p.first + linear * p.step, value.dtype);
    });
  }
  if (value.elements && (!value.constant || !value.constant->data.same_on_all_ranks())) {
    const Elements& e = *value.elements;
    const bool constant =
        std::all_of(e.values.begin(), e.values.end(), [](Expr v) { return v.is_constant(); });
    if (constant) {
      std::vector<std::int64_t> numbers;
      for (const Expr& v : e.values) numbers.push_back(v.constant());
      value.constant = integer_tensor(value.dtype, e.sizes, numbers);
    } else {
      return symbolic_tensor(e, value.dtype, lowering);
    }
  }
  ir::internal_check(value.constant.has_value(), "value '{}' is read before it is defined", value.name);
  const Tensor& tensor = *value.constant;
  const bool single = tensor.count() == 1 && tensor.data.same_on_all_ranks();
  if (single)
    return fill(lowering, {tensor.sizes.begin(), tensor.sizes.end()}, tensor.dtype, literal_at(tensor, 0));
  if (is_storage(tensor.dtype) && ir::bits_of(tensor.dtype) < 8 && tensor.count() > 1)
    return packed_constant(lowering, value.name, tensor);
  return lowering.constant(value.name, tensor.dtype, tensor.sizes, tensor.data);
}

}  // namespace

TensorBox box_of(Value& value, ir::Lowering& lowering) {
  // A value that is first read in the branch of an If may be read outside of it too.
  if (!value.box.valid()) value.box = lowering.outside_regions([&] { return made(value, lowering); });
  return value.box;
}

}  // namespace braid::frontend
