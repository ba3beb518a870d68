#include "codegen/extern_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "codegen/c_text.h"
#include "ir/extern_registry.h"
#include "runtime/extern_kernel.h"

namespace braid::codegen {

using namespace ir;

namespace {

std::string value_text(std::int64_t value) {
  return value == std::numeric_limits<std::int64_t>::min() ? "INT64_MIN"
                                                           : fmt::format("int64_t{{{}}}", value);
}
std::string value_text(double value) {
  if (std::isnan(value)) return "__builtin_nan(\"\")";
  if (std::isinf(value)) return value < 0 ? "-__builtin_inf()" : "__builtin_inf()";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string value_text(const std::string& value) { return c_string(value); }

std::string view_text(const Graph& graph, const TensorRef& ref, bool written, const ExternText& text) {
  std::vector<std::string> sizes, strides;
  for (const Expr& e : ref.sizes) sizes.push_back(text.size(e));
  for (const Expr& e : ref.strides) strides.push_back(text.size(e));
  return fmt::format("tensor_view({}, {}, {{{}}}, {{{}}})", abi_dtype(graph[ref.buffer].dtype),
                     text.address(ref, written), fmt::join(sizes, ", "), fmt::join(strides, ", "));
}

}  // namespace

std::string extern_refusal(const Graph& graph, const Operation& op, const std::string& target) {
  const ExternKernel& kernel = *op.as<ExternKernel>();
  if (kernel.callee.empty()) return "an operation without a body";
  const ExternKernelSpec* spec = find_extern_kernel(kernel.callee);
  if (spec == nullptr) return fmt::format("extern kernel '{}', which no plug-in registers", kernel.callee);
  if (!spec->sources.contains(target))
    return fmt::format("extern kernel '{}', which has no source for this target", kernel.callee);
  if (kernel.barrier) return fmt::format("extern kernel '{}' as a barrier", kernel.callee);
  for (const auto* refs : {&kernel.reads, &kernel.writes}) {
    for (const TensorRef& ref : *refs) {
      if (ref.sizes.size() > BRAID_EXTERN_MAX_RANK)
        return fmt::format("extern kernel '{}' on '{}', which has {} dimensions; at most {}", kernel.callee,
                           graph[ref.buffer].name, ref.sizes.size(), BRAID_EXTERN_MAX_RANK);
      if (!spec->strided && !is_contiguous(ref.sizes, ref.strides))
        return fmt::format("extern kernel '{}' on '{}', which is not row-major", kernel.callee,
                           graph[ref.buffer].name);
    }
  }
  const std::string why = spec->refuses(graph, kernel);
  return why.empty() ? why : fmt::format("extern kernel '{}', which {}", kernel.callee, why);
}

std::string extern_arguments(const Graph& graph, const ExternKernel& kernel, const ExternText& text) {
  const auto views = [&](const std::vector<TensorRef>& refs, bool written) {
    std::vector<std::string> out;
    for (const TensorRef& ref : refs) out.push_back(view_text(graph, ref, written, text));
    return out;
  };
  std::vector<std::string> attributes;
  for (const auto& [name, value] : kernel.attributes) {
    const std::string shown = std::visit([](const auto& v) { return value_text(v); }, value);
    attributes.push_back(fmt::format("attribute({}, {})", c_string(name), shown));
  }
  return fmt::format("::{}, {{{}}}, {{{}}}, {{{}}}", kernel.callee,
                     fmt::join(views(kernel.reads, false), ", "), fmt::join(views(kernel.writes, true), ", "),
                     fmt::join(attributes, ", "));
}

std::vector<std::string> extern_sources(const Schedule& schedule, const std::string& target) {
  std::vector<std::string> called, sources;
  for (OpId id : nested_order(schedule)) {
    const auto* kernel = schedule.graph[id].as<ExternKernel>();
    if (kernel == nullptr || std::find(called.begin(), called.end(), kernel->callee) != called.end())
      continue;
    called.push_back(kernel->callee);
    std::string source = find_extern_kernel(kernel->callee)->sources.at(target);
    if (source.empty() || source.back() != '\n') source += '\n';
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace braid::codegen
