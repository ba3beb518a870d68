#include "frontend/ops/constant_input.h"

#include "ir/element.h"
#include "ir/error_numbers.h"
#include "ir/scalar.h"

namespace braid::frontend {

void fail_unknown_value(OpContext& c, int k, const char* what) {
  c.fail_unknown(
      k, errors::kDataDependentSize,
      fmt::format("{} come from '{}', whose values are known only at run time", what, c.value(k).name),
      "make it a constant");
}

std::vector<double> constant_numbers(OpContext& c, int k, const char* what) {
  Value& v = c.value(k);
  std::vector<double> numbers;
  if (v.constant && v.constant->data.same_on_all_ranks()) {
    const std::int64_t count = v.constant->count();
    for (std::int64_t i = 0; i < count; ++i) {
      numbers.push_back(is_float(v.dtype) ? float_at(*v.constant, i)
                                          : static_cast<double>(integer_at(*v.constant, i)));
    }
    return numbers;
  }
  if (is_float(v.dtype)) fail_unknown_value(c, k, what);
  for (const std::int64_t number : c.constant_ints(k, what)) numbers.push_back(static_cast<double>(number));
  return numbers;
}

double constant_number(OpContext& c, int k, const char* what) {
  const std::vector<double> numbers = constant_numbers(c, k, what);
  if (numbers.size() != 1)
    c.fail(errors::kShapeMismatch, fmt::format("{} must be one number, got {}", what, numbers.size()));
  return numbers[0];
}

bool has_elements(OpContext& c, int k) {
  if (!c.has_input(k)) return false;
  for (const Expr& size : c.sizes(k)) {
    if (size.is_constant(0)) return false;
  }
  return true;
}

Tensor rounded_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<double>& values) {
  const std::int64_t bytes_each = size_of(dtype);
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bytes_each));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const ir::Scalar rounded = ir::cast(DType::f64, dtype, {.d = values[k]});
    ir::write_element(dtype, bytes.data() + static_cast<std::int64_t>(k) * bytes_each,
                      ir::to_literal(dtype, rounded));
  }
  return {dtype, std::move(sizes), ir::own_bytes(std::move(bytes))};
}

TensorBox constant_table(OpContext& c, const std::string& name, DType dtype, std::vector<std::int64_t> sizes,
                         const std::vector<double>& values) {
  Tensor table = rounded_tensor(dtype, sizes, values);
  return c.lowering().constant(name, dtype, std::move(sizes), std::move(table.data));
}

}  // namespace braid::frontend
