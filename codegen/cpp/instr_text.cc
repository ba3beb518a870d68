#include "codegen/cpp/instr_text.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/cpp/cpp_text.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// x^exponent by multiplication where the exponent is a small integer or a half.
std::string constant_power(const std::string& x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return fmt::format("{0} * {0}", x);
  if (exponent == 3) return fmt::format("{0} * {0} * {0}", x);
  if (exponent == 4) return fmt::format("({0} * {0}) * ({0} * {0})", x);
  if (exponent == -1) return fmt::format("1 / {}", x);
  if (exponent == -2) return fmt::format("1 / ({0} * {0})", x);
  return {};
}

std::string compute(const Instr& instr, DType in, const std::vector<std::string>& v,
                    std::optional<double> exponent) {
  const bool real = is_float(in);
  const bool boolean = in == DType::boolean;
  const std::string type = value_type(in);
  const auto call1 = [&](const char* f) { return fmt::format("{}({})", f, v[0]); };
  const auto call2 = [&](const char* f) { return fmt::format("{}<{}>({}, {})", f, type, v[0], v[1]); };
  const auto infix = [&](const char* op) { return fmt::format("{} {} {}", v[0], op, v[1]); };
  switch (instr.code) {
    case OpCode::cast:
      return fmt::format("convert<{}>({})", value_type(instr.dtype), v[0]);
    case OpCode::neg:
      return real ? "-" + v[0] : fmt::format("wrap_neg<{}>({})", type, v[0]);
    case OpCode::abs:
      return real ? call1("vabs") : boolean ? v[0] : fmt::format("int_abs<{}>({})", type, v[0]);
    case OpCode::sign:
      return fmt::format("vsign<{}>({})", type, v[0]);
    case OpCode::exp:
      return call1("vexp");
    case OpCode::log:
      return call1("vlog");
    case OpCode::sqrt:
      return call1("vsqrt");
    case OpCode::rsqrt:
      return call1("vrsqrt");
    case OpCode::reciprocal:
      return real ? "1 / " + v[0] : fmt::format("int_div<{0}>({0}{{1}}, {1})", type, v[0]);
    case OpCode::erf:
      return call1("verf");
    case OpCode::tanh:
      return call1("vtanh");
    case OpCode::sigmoid:
      return call1("vsigmoid");
    case OpCode::sin:
      return call1("vsin");
    case OpCode::cos:
      return call1("vcos");
    case OpCode::floor:
      return real ? call1("vfloor") : v[0];
    case OpCode::ceil:
      return real ? call1("vceil") : v[0];
    case OpCode::round:
      return real ? call1("vround") : v[0];
    case OpCode::is_nan:
      return real ? fmt::format("{0} != {0}", v[0]) : "false";
    case OpCode::is_inf:
      return real ? fmt::format("vabs({}) == std::numeric_limits<{}>::infinity()", v[0], type) : "false";
    case OpCode::logical_not:
      return "!" + v[0];
    case OpCode::add:
      return real ? infix("+") : boolean ? infix("|") : call2("wrap_add");
    case OpCode::sub:
      return real ? infix("-") : boolean ? infix("^") : call2("wrap_sub");
    case OpCode::mul:
      return real ? infix("*") : boolean ? infix("&") : call2("wrap_mul");
    case OpCode::div:
      return real ? infix("/") : boolean ? infix("&") : call2("int_div");
    case OpCode::mod:
      return real ? call2("float_mod") : call2("int_mod");
    case OpCode::fmod:
      return real ? fmt::format("std::fmod({}, {})", v[0], v[1]) : call2("int_fmod");
    case OpCode::pow: {
      if (!real) return call2("int_pow");
      const std::string simple = exponent ? constant_power(v[0], *exponent) : std::string();
      return !simple.empty() ? simple : fmt::format("vpow({}, {})", v[0], v[1]);
    }
    case OpCode::min:
      return boolean ? infix("&") : call2("vmin");
    case OpCode::max:
      return boolean ? infix("|") : call2("vmax");
    case OpCode::logical_and:
      return infix("&");
    case OpCode::logical_or:
      return infix("|");
    case OpCode::logical_xor:
      return infix("^");
    case OpCode::eq:
      return infix("==");
    case OpCode::ne:
      return infix("!=");
    case OpCode::lt:
      return infix("<");
    case OpCode::le:
      return infix("<=");
    case OpCode::gt:
      return infix(">");
    case OpCode::ge:
      return infix(">=");
    case OpCode::where:
      return fmt::format("{} ? {} : {}", v[0], v[1], v[2]);
    case OpCode::load:
    case OpCode::constant:
    case OpCode::index:
    case OpCode::acc:
    case OpCode::check_index:
      break;
  }
  throw InternalError(fmt::format("codegen: {} is not arithmetic", to_string(instr.code)));
}

// Values of a narrow float type are exact in float for these: no rounding needed.
bool exact(OpCode code) {
  switch (code) {
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::sign:
    case OpCode::floor:
    case OpCode::ceil:
    case OpCode::round:
    case OpCode::min:
    case OpCode::max:
    case OpCode::where:
    case OpCode::fmod:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string arithmetic(const Instr& instr, DType in, const std::vector<std::string>& operands,
                       std::optional<double> exponent) {
  std::string text = compute(instr, in, operands, exponent);
  if (exact(instr.code)) return text;
  if (instr.dtype == DType::f16) return "round_to_half(" + text + ")";
  if (instr.dtype == DType::bf16) return "round_to_bfloat16(" + text + ")";
  return text;
}

int work_of(const Instr& instr) {
  switch (instr.code) {
    case OpCode::constant:
    case OpCode::index:
    case OpCode::acc:
      return 0;
    case OpCode::exp:
    case OpCode::log:
    case OpCode::tanh:
    case OpCode::sigmoid:
    case OpCode::erf:
      return 8;
    case OpCode::sin:
    case OpCode::cos:
      return 12;
    case OpCode::pow:
      return 20;
    case OpCode::div:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
      return 3;
    case OpCode::mod:
    case OpCode::fmod:
      return 8;
    default:
      return 1;
  }
}

}  // namespace braid::codegen::cpp
