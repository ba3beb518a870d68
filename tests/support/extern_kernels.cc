#include "tests/support/extern_kernels.h"

#include <fmt/format.h>

#include <cstring>

#include "ir/error.h"
#include "ir/extern_registry.h"

namespace braid::test {
namespace {

void interpret(ir::ExternCall& call) {
  const auto& attributes = call.op.as<ir::ExternKernel>()->attributes;
  const auto shift = std::get<std::int64_t>(attributes.at("shift"));
  if (shift == 13) ir::user_error(703, {{}, call.op.name, {}}, kBlendFailure);
  const auto scale = static_cast<float>(std::get<double>(attributes.at("scale")));
  const auto length = static_cast<float>(std::get<std::string>(attributes.at("text")).size());
  const auto element = [](const ir::Tensor& t, std::int64_t k) {
    float value = 0;
    std::memcpy(&value, t.bytes.data() + k * 4, 4);
    return value;
  };
  for (std::int64_t k = 0; k < call.writes[0].numel(); ++k) {
    const float old = call.reads.size() > 1 ? element(call.reads[1], k) : 0;
    const float value = scale * element(call.reads[0], k) + old + static_cast<float>(shift) + length;
    std::memcpy(call.writes[0].bytes.data() + k * 4, &value, 4);
  }
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  const bool numbers = kernel.writes.size() == 1 && (kernel.reads.size() == 1 || kernel.reads.size() == 2);
  for (const auto* refs : {&kernel.reads, &kernel.writes}) {
    for (const ir::TensorRef& ref : *refs) {
      if (!numbers || graph[ref.buffer].dtype != ir::DType::f32 || ref.sizes != kernel.writes[0].sizes)
        return "takes one or two f32 tensors of the sizes of its result";
    }
  }
  for (const char* name : {"scale", "shift", "text"}) {
    if (!kernel.attributes.contains(name)) return std::string("needs the attribute ") + name;
  }
  return {};
}

// {0}: the symbol, {1}: qualifiers of the function for all elements, {2}: how it is called.
constexpr const char* kSource =
    R"({1} void {0}_all(BraidTensorView x, BraidTensorView old, BraidTensorView y, float scale, float shift) {{
  int64_t count = 1;
  for (int32_t d = 0; d < y.rank; ++d) count *= y.sizes[d];
  for (int64_t k = 0; k < count; ++k) {{
    int64_t rest = k, at_x = 0, at_old = 0, at_y = 0;
    for (int32_t d = y.rank; d-- > 0;) {{
      const int64_t i = rest % y.sizes[d];
      rest /= y.sizes[d];
      at_x += i * x.strides[d];
      at_old += i * old.strides[d];
      at_y += i * y.strides[d];
    }}
    const float before = old.data != nullptr ? static_cast<const float*>(old.data)[at_old] : 0;
    static_cast<float*>(y.data)[at_y] = scale * static_cast<const float*>(x.data)[at_x] + before + shift;
  }}
}}

static const char* {0}(const BraidExternCall* call) {{
  const int64_t shift = braid_find_attribute(call, "shift", BRAID_INTEGER)->integer;
  if (shift == 13) return "13 is no shift";
  const float scale = static_cast<float>(braid_find_attribute(call, "scale", BRAID_REAL)->real);
  float shifts = static_cast<float>(shift);
  for (const char* c = braid_find_attribute(call, "text", BRAID_TEXT)->text; *c != '\0'; ++c) shifts += 1;
  const BraidTensorView old = call->read_count > 1 ? call->reads[1] : BraidTensorView{{}};
  {2}
}}
)";

std::string cpu_source(const std::string& symbol) {
  return fmt::format(kSource, symbol, "static",
                     fmt::format("{}_all(call->reads[0], old, call->writes[0], scale, shifts);\n"
                                 "  return nullptr;",
                                 symbol));
}

ir::ExternKernelSpec blend() {
  return {
      .symbol = "blend",
      .strided = true,
      .interpret = interpret,
      .refuses = refuses,
      .kernel_class = ir::KernelClass::elementwise,
      .flops =
          [](const ir::ExternShapes& shapes) {
            double count = 3;
            for (std::int64_t size : shapes.writes[0]) count *= static_cast<double>(size);
            return count;
          },
      .sources = {{"cpu", cpu_source("blend")},
                  {"cuda", fmt::format(kSource, "blend", "static __global__",
                                       "const cudaError_t e = BRAID_LAUNCH(blend_all, dim3(1), dim3(1), 0, "
                                       "static_cast<cudaStream_t>(call->stream),\n"
                                       "      call->reads[0], old, call->writes[0], scale, shifts);\n"
                                       "  return e == cudaSuccess ? nullptr : cudaGetErrorString(e);")}},
  };
}

}  // namespace

void register_extern_kernels() {
  if (ir::find_extern_kernel("blend") != nullptr) return;
  ir::register_extern_kernel(blend());
  ir::register_extern_kernel({
      .symbol = "host_only",
      .interpret = interpret,
      .refuses = refuses,
      .kernel_class = ir::KernelClass::elementwise,
      .sources = {{"cpu", cpu_source("host_only")}},
  });
}

}  // namespace braid::test
