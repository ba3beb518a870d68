// The extern kernel `roi_align` (runtime/host/roi_align.h).
#include "runtime/roi_align.h"

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

template <class T>
bool has(const ir::ExternKernel& kernel, const char* name) {
  const auto found = kernel.attributes.find(name);
  return found != kernel.attributes.end() && std::holds_alternative<T>(found->second);
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 3 || kernel.writes.size() != 1)
    return "takes three tensors, x, regions and images, and makes one";
  const ir::TensorRef &x = kernel.reads[0], &regions = kernel.reads[1], &images = kernel.reads[2];
  const ir::TensorRef& y = kernel.writes[0];
  const DType dtype = graph[x.buffer].dtype;
  if ((dtype != DType::f32 && dtype != DType::f64) || graph[regions.buffer].dtype != dtype ||
      graph[y.buffer].dtype != dtype || graph[images.buffer].dtype != DType::i64)
    return "takes float32 or float64, and int64 for images";
  if (x.sizes.size() != 4 || regions.sizes.size() != 2 || !regions.sizes[1].is_constant(4) ||
      images.sizes.size() != 1 || y.sizes.size() != 4 || !ir::provably_equal(y.sizes[0], regions.sizes[0]) ||
      !ir::provably_equal(images.sizes[0], regions.sizes[0]) || !ir::provably_equal(y.sizes[1], x.sizes[1]))
    return "takes x [n, c, h, w], regions [r, 4] and images [r] and makes [r, c, ph, pw]";
  if (!has<std::int64_t>(kernel, "half_pixel") || !has<std::int64_t>(kernel, "maximum") ||
      !has<std::int64_t>(kernel, "sampling_ratio") || !has<double>(kernel, "spatial_scale"))
    return "needs the integers half_pixel, maximum and sampling_ratio and the number spatial_scale";
  return {};
}

template <class T>
void interpret_as(ir::ExternCall& call, const rt::RoiAlignOptions& o) {
  const std::vector<T> x = call.reads[0].values<T>(), regions = call.reads[1].values<T>();
  const std::vector<std::int64_t> images = call.reads[2].values<std::int64_t>();
  const std::vector<std::int64_t>& sizes = call.writes[0].sizes;
  std::vector<T> y;
  for (std::int64_t r = 0; r < sizes[0]; ++r) {
    for (std::int64_t channel = 0; channel < sizes[1]; ++channel) {
      const std::int64_t plane = images[static_cast<std::size_t>(r)] * sizes[1] + channel;
      for (std::int64_t bin = 0; bin < sizes[2] * sizes[3]; ++bin)
        y.push_back(rt::roi_align_element(x.data() + plane * o.height * o.width, regions.data() + r * 4,
                                          bin / sizes[3], bin % sizes[3], o));
    }
  }
  call.writes[0] = ir::make_tensor(call.reads[0].dtype, sizes, y);
}

void interpret(ir::ExternCall& call) {
  const auto& attributes = call.op.as<ir::ExternKernel>()->attributes;
  const auto integer = [&](const char* name) { return std::get<std::int64_t>(attributes.at(name)); };
  const std::vector<std::int64_t>&x = call.reads[0].sizes, &y = call.writes[0].sizes;
  const rt::RoiAlignOptions o{x[2],
                              x[3],
                              y[2],
                              y[3],
                              integer("sampling_ratio"),
                              std::get<double>(attributes.at("spatial_scale")),
                              integer("half_pixel") != 0,
                              integer("maximum") != 0};
  if (call.reads[0].dtype == DType::f64)
    interpret_as<double>(call, o);
  else
    interpret_as<float>(call, o);
}

// Four samples per bin where the region decides their number. Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.writes.empty() || !has<std::int64_t>(shapes.kernel, "sampling_ratio")) return 0;
  double count = 1;
  for (const std::int64_t size : shapes.writes[0]) count *= static_cast<double>(size);
  const auto ratio =
      static_cast<double>(std::get<std::int64_t>(shapes.kernel.attributes.at("sampling_ratio")));
  constexpr double kFlopsPerSample = 24;
  return count * kFlopsPerSample * (ratio > 0 ? ratio * ratio : 4);
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "roi_align",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = flops,
    .sources = runtime_sources("roi_align"),
}};

}  // namespace
}  // namespace braid::codegen
