#include "codegen/cuda/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "ir/element.h"
#include "ir/error.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::OpCode;

namespace {

// An op as CUDA C++ of its operands {0}, {1}, {2}; {R} is the type of its result.
struct Row {
  OpCode code;
  std::string_view text;
  // For float and double, if C has an operator; half types and integers need care with rounding and wrapping.
  std::string_view plain;
};

constexpr Row kRows[] = {
    {OpCode::load},
    {OpCode::constant},
    {OpCode::index},
    {OpCode::acc},
    {OpCode::check_index},
    {OpCode::cast},
    {OpCode::bitcast, "math::same_bits<{R}>({0})"},
    {OpCode::neg, "math::neg({0})", "-{0}"},
    {OpCode::abs, "math::abs({0})"},
    {OpCode::sign, "math::sign({0})"},
    {OpCode::exp, "math::exp({0})"},
    {OpCode::expm1, "math::expm1({0})"},
    {OpCode::log, "math::log({0})"},
    {OpCode::log1p, "math::log1p({0})"},
    {OpCode::sqrt, "math::sqrt({0})"},
    {OpCode::rsqrt, "math::rsqrt({0})"},
    {OpCode::reciprocal, "math::reciprocal({0})"},
    {OpCode::erf, "math::erf({0})"},
    {OpCode::tanh, "math::tanh({0})"},
    {OpCode::sigmoid, "math::sigmoid({0})"},
    {OpCode::sin, "math::sin({0})"},
    {OpCode::cos, "math::cos({0})"},
    {OpCode::tan, "math::tan({0})"},
    {OpCode::asin, "math::asin({0})"},
    {OpCode::acos, "math::acos({0})"},
    {OpCode::atan, "math::atan({0})"},
    {OpCode::sinh, "math::sinh({0})"},
    {OpCode::cosh, "math::cosh({0})"},
    {OpCode::asinh, "math::asinh({0})"},
    {OpCode::acosh, "math::acosh({0})"},
    {OpCode::atanh, "math::atanh({0})"},
    {OpCode::floor, "math::floor({0})"},
    {OpCode::ceil, "math::ceil({0})"},
    {OpCode::round, "math::round({0})"},
    {OpCode::is_nan, "math::is_nan({0})"},
    {OpCode::is_inf, "math::is_inf({0})"},
    {OpCode::logical_not, "!{0}"},
    {OpCode::bit_not, "math::bit_not({0})"},
    {OpCode::add, "math::add({0}, {1})", "{0} + {1}"},
    {OpCode::sub, "math::sub({0}, {1})", "{0} - {1}"},
    {OpCode::mul, "math::mul({0}, {1})", "{0} * {1}"},
    {OpCode::div, "math::div({0}, {1})", "{0} / {1}"},
    {OpCode::mod, "math::mod({0}, {1})"},
    {OpCode::fmod, "math::fmod({0}, {1})"},
    {OpCode::pow, "math::pow({0}, {1})"},
    {OpCode::min, "math::min({0}, {1})"},
    {OpCode::max, "math::max({0}, {1})"},
    {OpCode::logical_and, "{0} && {1}"},
    {OpCode::logical_or, "{0} || {1}"},
    {OpCode::logical_xor, "{0} != {1}"},
    {OpCode::bit_and, "math::bit_and({0}, {1})"},
    {OpCode::bit_or, "math::bit_or({0}, {1})"},
    {OpCode::bit_xor, "math::bit_xor({0}, {1})"},
    {OpCode::shift_left, "math::shift_left({0}, {1})"},
    {OpCode::shift_right, "math::shift_right({0}, {1})"},
    {OpCode::eq, "{0} == {1}"},
    {OpCode::ne, "{0} != {1}"},
    {OpCode::lt, "{0} < {1}"},
    {OpCode::le, "{0} <= {1}"},
    {OpCode::gt, "{0} > {1}"},
    {OpCode::ge, "{0} >= {1}"},
    {OpCode::where, "{0} ? {1} : {2}"},
};
static_assert(ir::has_every_op(kRows));

}  // namespace

std::string memory_type(DType dtype) {
  switch (byte_type(dtype)) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::f16:
      return "__half";
    case DType::bf16:
      return "__nv_bfloat16";
    case DType::i8:
      return "int8_t";
    case DType::i16:
      return "int16_t";
    case DType::i32:
      return "int32_t";
    case DType::i64:
      return "int64_t";
    case DType::u8:
      return "uint8_t";
    case DType::u16:
      return "uint16_t";
    case DType::u32:
      return "uint32_t";
    case DType::u64:
      return "uint64_t";
    case DType::boolean:
      return "uint8_t";
    default:
      break;
  }
  throw ir::InternalError("memory_type: unknown element type");
}

std::string value_type(DType dtype) { return dtype == DType::boolean ? "bool" : memory_type(dtype); }

DType accumulator_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return DType::f32;
    case DType::boolean:
    case DType::i8:
    case DType::i16:
    case DType::u8:
    case DType::u16:
      return DType::i32;
    default:
      return dtype;
  }
}

std::string literal(DType dtype, ir::Literal value) {
  if (ir::is_float(dtype)) {
    // Texts may hold more digits than the type has.
    const double v = ir::round_to(dtype, std::holds_alternative<double>(value)
                                             ? std::get<double>(value)
                                             : static_cast<double>(std::get<std::int64_t>(value)));
    const std::string type = value_type(dtype);
    if (std::isnan(v)) return fmt::format("math::nan<{}>()", type);
    if (std::isinf(v) && v < 0) return fmt::format("math::neg(math::infinity<{}>())", type);
    if (std::isinf(v)) return fmt::format("math::infinity<{}>()", type);
    // The shortest decimal that reads back as the same bits; compilers round decimals correctly.
    if (dtype == DType::f64) {
      std::string text = fmt::format("{}", v);
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    std::string text = fmt::format("{}", static_cast<float>(v));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return dtype == DType::f32 ? text + "f" : fmt::format("from_float<{}>({}f)", type, text);
  }
  const std::int64_t v = std::get<std::int64_t>(value);
  switch (dtype) {
    case DType::boolean:
      return v != 0 ? "true" : "false";
    case DType::u64:
      return fmt::format("uint64_t{{{}u}}", static_cast<std::uint64_t>(v));
    case DType::i64:
      return v == INT64_MIN ? "int64_t{-9223372036854775807 - 1}" : fmt::format("int64_t{{{}}}", v);
    case DType::i32:
      return v == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", v);
    case DType::u32:
      return fmt::format("{}u", static_cast<std::uint32_t>(v));
    default:
      return fmt::format("{}({})", value_type(dtype), v);
  }
}

std::string converted(const std::string& text, DType from, DType to) {
  return from == to ? text : fmt::format("math::convert<{}>({})", value_type(to), text);
}

const char* fold(ir::ReduceKind kind) {
  switch (kind) {
    case ir::ReduceKind::sum:
      return "Sum";
    case ir::ReduceKind::prod:
      return "Product";
    case ir::ReduceKind::max:
      return "Maximum";
    case ir::ReduceKind::min:
      return "Minimum";
    case ir::ReduceKind::avg:
      break;
  }
  throw ir::InternalError("a loop cannot fold with 'avg'");
}

std::string arithmetic(OpCode code, DType operand_type, DType result_type,
                       const std::vector<std::string>& v) {
  if (code == OpCode::cast) return converted(v[0], operand_type, result_type);
  const Row& row = ir::row_of(code, kRows);
  const bool plain = (operand_type == DType::f32 || operand_type == DType::f64) && !row.plain.empty();
  const std::string_view pattern = plain ? row.plain : row.text;
  ir::internal_check(!pattern.empty(), "codegen: {} is not arithmetic", ir::to_string(code));
  const auto operand = [&](std::size_t k) { return k < v.size() ? v[k] : std::string(); };
  return fmt::format(fmt::runtime(pattern), operand(0), operand(1), operand(2),
                     fmt::arg("R", value_type(result_type)));
}

}  // namespace braid::codegen::cuda
