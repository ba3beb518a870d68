#include "codegen/cuda/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "ir/error.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::OpCode;

std::string memory_type(DType dtype) {
  switch (dtype) {
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

std::string accumulator_type(DType dtype) { return value_type(accumulator_dtype(dtype)); }

std::string literal(DType dtype, ir::Literal value) {
  if (ir::is_float(dtype)) {
    const double v = std::holds_alternative<double>(value)
                         ? std::get<double>(value)
                         : static_cast<double>(std::get<std::int64_t>(value));
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
  // float and double have C's own operators; half types and integers have rounding and wrapping to be seen
  // to.
  const bool plain = operand_type == DType::f32 || operand_type == DType::f64;
  const auto infix = [&](const char* op) { return fmt::format("{} {} {}", v[0], op, v[1]); };
  const auto call = [&] {
    std::string args = v[0];
    for (std::size_t k = 1; k < v.size(); ++k) args += ", " + v[k];
    return fmt::format("math::{}({})", ir::to_string(code), args);
  };
  switch (code) {
    case OpCode::cast:
      return converted(v[0], operand_type, result_type);
    case OpCode::add:
      return plain ? infix("+") : call();
    case OpCode::sub:
      return plain ? infix("-") : call();
    case OpCode::mul:
      return plain ? infix("*") : call();
    case OpCode::div:
      return plain ? infix("/") : call();
    case OpCode::neg:
      return plain ? "-" + v[0] : call();
    case OpCode::logical_not:
      return "!" + v[0];
    case OpCode::logical_and:
      return infix("&&");
    case OpCode::logical_or:
      return infix("||");
    case OpCode::logical_xor:
      return infix("!=");
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
      throw ir::InternalError("arithmetic() of an instruction that is none");
    default:
      return call();
  }
}

}  // namespace braid::codegen::cuda
