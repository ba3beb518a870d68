#include "codegen/cpp/instr_text.h"

#include <fmt/format.h>

#include <string_view>

#include "codegen/cpp/cpp_text.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// x^exponent by multiplication if the exponent is a small integer or a half.
std::string constant_power(const std::string& x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return fmt::format("{0} * {0}", x);
  if (exponent == 3) return fmt::format("{0} * {0} * {0}", x);
  if (exponent == 4) return fmt::format("({0} * {0}) * ({0} * {0})", x);
  if (exponent == -1) return fmt::format("1 / {}", x);
  if (exponent == -2) return fmt::format("1 / ({0} * {0})", x);
  return {};
}

// An op as C++: {0}, {1}, {2} are its operands, {T} their type, {R} that of the result,
// {M} and {N} the same in memory.
struct Row {
  OpCode code;
  int work;    // approximate cost in simple operations
  bool exact;  // values of a narrow float type give such a value: no rounding needed
  std::string_view text;
  std::string_view integer = text;  // of integers and bool, if it differs
  std::string_view boolean = integer;
};
constexpr bool kExact = true, kRounds = false;

constexpr Row kRows[] = {
    {OpCode::load, 1, kExact},
    {OpCode::constant, 0, kExact},
    {OpCode::index, 0, kExact},
    {OpCode::acc, 0, kExact},
    {OpCode::check_index, 1, kExact},
    {OpCode::cast, 1, kRounds, "convert<{R}>({0})"},
    {OpCode::bitcast, 1, kExact, "same_bits<{N}, {M}>({0})"},
    {OpCode::neg, 1, kExact, "-{0}", "wrap_neg<{T}>({0})"},
    {OpCode::abs, 1, kExact, "vabs({0})", "int_abs<{T}>({0})"},
    {OpCode::sign, 1, kExact, "vsign<{T}>({0})"},
    {OpCode::exp, 8, kRounds, "vexp({0})"},
    {OpCode::expm1, 12, kRounds, "vexpm1({0})"},
    {OpCode::log, 8, kRounds, "vlog({0})"},
    {OpCode::log1p, 12, kRounds, "vlog1p({0})"},
    {OpCode::sqrt, 3, kRounds, "vsqrt({0})"},
    {OpCode::rsqrt, 3, kRounds, "vrsqrt({0})"},
    {OpCode::reciprocal, 3, kRounds, "1 / {0}"},
    {OpCode::erf, 8, kRounds, "verf({0})"},
    {OpCode::tanh, 8, kRounds, "vtanh({0})"},
    {OpCode::sigmoid, 8, kRounds, "vsigmoid({0})"},
    {OpCode::sin, 12, kRounds, "vsin({0})"},
    {OpCode::cos, 12, kRounds, "vcos({0})"},
    {OpCode::tan, 20, kRounds, "vtan({0})"},
    {OpCode::asin, 20, kRounds, "vasin({0})"},
    {OpCode::acos, 20, kRounds, "vacos({0})"},
    {OpCode::atan, 16, kRounds, "vatan({0})"},
    {OpCode::sinh, 16, kRounds, "vsinh({0})"},
    {OpCode::cosh, 12, kRounds, "vcosh({0})"},
    {OpCode::asinh, 20, kRounds, "vasinh({0})"},
    {OpCode::acosh, 16, kRounds, "vacosh({0})"},
    {OpCode::atanh, 16, kRounds, "vatanh({0})"},
    {OpCode::floor, 1, kExact, "vfloor({0})"},
    {OpCode::ceil, 1, kExact, "vceil({0})"},
    {OpCode::round, 1, kExact, "vround({0})"},
    {OpCode::is_nan, 1, kExact, "{0} != {0}"},
    {OpCode::is_inf, 1, kExact, "vabs({0}) == std::numeric_limits<{T}>::infinity()"},
    {OpCode::logical_not, 1, kExact, "!{0}"},
    {OpCode::bit_not, 1, kExact, {}, "static_cast<{T}>(~{0})"},
    {OpCode::add, 1, kRounds, "{0} + {1}", "wrap_add<{T}>({0}, {1})"},
    {OpCode::sub, 1, kRounds, "{0} - {1}", "wrap_sub<{T}>({0}, {1})"},
    {OpCode::mul, 1, kRounds, "{0} * {1}", "wrap_mul<{T}>({0}, {1})"},
    {OpCode::div, 3, kRounds, "{0} / {1}", "int_div<{T}>({0}, {1})"},
    {OpCode::mod, 8, kRounds, "float_mod<{T}>({0}, {1})", "int_mod<{T}>({0}, {1})"},
    {OpCode::fmod, 8, kExact, "float_fmod({0}, {1})", "int_fmod<{T}>({0}, {1})"},
    {OpCode::pow, 20, kRounds, "vpow({0}, {1})", "int_pow<{T}>({0}, {1})"},
    {OpCode::min, 1, kExact, "vmin<{T}>({0}, {1})", "vmin<{T}>({0}, {1})", "{0} & {1}"},
    {OpCode::max, 1, kExact, "vmax<{T}>({0}, {1})", "vmax<{T}>({0}, {1})", "{0} | {1}"},
    {OpCode::logical_and, 1, kExact, "{0} & {1}"},
    {OpCode::logical_or, 1, kExact, "{0} | {1}"},
    {OpCode::logical_xor, 1, kExact, "{0} ^ {1}"},
    {OpCode::bit_and, 1, kExact, {}, "static_cast<{T}>({0} & {1})"},
    {OpCode::bit_or, 1, kExact, {}, "static_cast<{T}>({0} | {1})"},
    {OpCode::bit_xor, 1, kExact, {}, "static_cast<{T}>({0} ^ {1})"},
    {OpCode::shift_left, 2, kExact, {}, "shift_left<{T}>({0}, {1})"},
    {OpCode::shift_right, 2, kExact, {}, "shift_right<{T}>({0}, {1})"},
    {OpCode::eq, 1, kExact, "{0} == {1}"},
    {OpCode::ne, 1, kExact, "{0} != {1}"},
    {OpCode::lt, 1, kExact, "{0} < {1}"},
    {OpCode::le, 1, kExact, "{0} <= {1}"},
    {OpCode::gt, 1, kExact, "{0} > {1}"},
    {OpCode::ge, 1, kExact, "{0} >= {1}"},
    {OpCode::where, 1, kExact, "{0} ? {1} : {2}"},
};
static_assert(has_every_op(kRows));

}  // namespace

std::string arithmetic(const Instr& instr, DType in, const std::vector<std::string>& operands,
                       std::optional<double> exponent) {
  return unrounded_arithmetic(instr, in, operands, exponent).rounded();
}

Arithmetic unrounded_arithmetic(const Instr& instr, DType in, const std::vector<std::string>& operands,
                                std::optional<double> exponent) {
  const Row& row = row_of(instr.code, kRows);
  std::string text;
  if (instr.code == OpCode::pow && is_float(in) && exponent) text = constant_power(operands[0], *exponent);
  if (text.empty()) {
    const std::string_view pattern = is_float(in)           ? row.text
                                     : in == DType::boolean ? row.boolean
                                                            : row.integer;
    internal_check(!pattern.empty(), "codegen: {} is not arithmetic", to_string(instr.code));
    const auto operand = [&](std::size_t k) { return k < operands.size() ? operands[k] : std::string(); };
    text = fmt::format(fmt::runtime(pattern), operand(0), operand(1), operand(2),
                       fmt::arg("T", value_type(in)), fmt::arg("R", value_type(instr.dtype)),
                       fmt::arg("M", storage_type(in)), fmt::arg("N", storage_type(instr.dtype)));
  }
  if (row.exact) return {text, {}};
  if (instr.dtype == DType::f16) return {text, "round_to_half"};
  if (instr.dtype == DType::bf16) return {text, "round_to_bfloat16"};
  return {text, {}};
}

int work_of(const Instr& instr) { return row_of(instr.code, kRows).work; }

}  // namespace braid::codegen::cpp
