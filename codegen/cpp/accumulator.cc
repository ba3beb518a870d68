#include "codegen/cpp/accumulator.h"

#include <fmt/format.h>

#include "codegen/cpp/cpp_text.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

Accumulator accumulator(ReduceKind kind, DType dtype, const std::string& node) {
  Accumulator a;
  const std::string value = value_type(dtype);
  const auto same = [](const std::string& x) { return x; };
  a.type = value;
  a.finish = same;
  const bool extreme = kind == ReduceKind::max || kind == ReduceKind::min;
  if (dtype == DType::boolean) {
    const bool any = kind == ReduceKind::max || kind == ReduceKind::sum;
    a.type = "uint8_t";
    a.init = any ? "0" : "1";
    a.clause = any ? "|" : "&";
    a.combine = [any](auto& acc, auto& v) {
      return fmt::format("{} {} static_cast<uint8_t>({})", acc, any ? "|" : "&", v);
    };
    a.finish = [](const std::string& x) { return x + " != 0"; };
  } else if (extreme && is_float(dtype)) {
    // Through integer keys; see runtime/kernel_support.h.
    const std::string name = kind == ReduceKind::max ? "max" : "min";
    a.type = dtype == DType::f64 ? "int64_t" : "int32_t";
    a.init = fmt::format("{}_key({}std::numeric_limits<{}>::infinity())", name,
                         kind == ReduceKind::max ? "-" : "", value);
    a.clause = name;
    a.combine = [name](auto& acc, auto& v) { return fmt::format("v{0}({1}, {0}_key({2}))", name, acc, v); };
    a.finish = [](const std::string& x) { return "from_key(" + x + ")"; };
  } else if (extreme) {
    const std::string name = kind == ReduceKind::max ? "max" : "min";
    a.init = fmt::format("std::numeric_limits<{}>::{}()", value, kind == ReduceKind::max ? "min" : "max");
    a.clause = name;
    a.combine = [name, value](auto& acc, auto& v) {
      return fmt::format("v{}<{}>({}, {})", name, value, acc, v);
    };
  } else {
    internal_check(kind == ReduceKind::sum || kind == ReduceKind::prod, "codegen: '{}' reduces by {}", node,
                   to_string(kind));
    const bool sum = kind == ReduceKind::sum;
    if (is_integer(dtype)) {  // wraps
      a.type = size_of(dtype) == 8 ? "uint64_t" : "uint32_t";
      a.finish = [value](const std::string& x) { return fmt::format("static_cast<{}>({})", value, x); };
    }
    a.init = sum ? "0" : "1";
    a.clause = sum ? "+" : "*";
    const std::string type = a.type;
    a.combine = [sum, type, value](auto& acc, auto& v) {
      const char* op = sum ? "+" : "*";
      return type == value ? fmt::format("{} {} {}", acc, op, v)
                           : fmt::format("{} {} static_cast<{}>({})", acc, op, type, v);
    };
  }
  return a;
}

std::string Accumulator::merged(const std::string& all, const std::string& part) const {
  if (clause == "max" || clause == "min")
    return fmt::format("if ({1} {2} {0}) {0} = {1};", all, part, clause == "max" ? ">" : "<");
  return fmt::format("{0} = static_cast<{3}>({0} {2} {1});", all, part, clause, type);
}

}  // namespace braid::codegen::cpp
