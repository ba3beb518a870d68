// The extern kernel `write_rows` (runtime/host/write_rows.h).
#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"
#include "ir/tensor.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::int64_t integer(const ir::ExternKernel& kernel, const char* name, std::int64_t absent) {
  const auto found = kernel.attributes.find(name);
  const auto* value = found == kernel.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? absent : *value;
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  constexpr const char* kTakes =
      "takes a cache, new rows of its type and one int64 position per element of the batch, with attributes "
      "axis "
      "(after the batch) and ring, or grows, and makes a cache";
  if (kernel.reads.size() != 3 || kernel.writes.size() != 1) return kTakes;
  const ir::TensorRef &old = kernel.reads[0], &rows = kernel.reads[1], &first = kernel.reads[2],
                      &out = kernel.writes[0];
  const DType type = graph[out.buffer].dtype;
  const auto rank = static_cast<std::int64_t>(out.sizes.size());
  const std::int64_t axis = integer(kernel, "axis", 0), ring = integer(kernel, "ring", -1);
  const bool grows = integer(kernel, "grows", 0) != 0;
  if (graph[old.buffer].dtype != type || graph[rows.buffer].dtype != type ||
      graph[first.buffer].dtype != DType::i64 || old.sizes.size() != out.sizes.size() ||
      rows.sizes.size() != out.sizes.size() || first.sizes.size() != 1 || axis < 1 || axis >= rank ||
      ring < 0 || (grows && ring > 0))
    return kTakes;
  for (std::size_t d = 0; d < out.sizes.size(); ++d) {
    if (!(grows && static_cast<std::int64_t>(d) == axis) && !(old.sizes[d] == out.sizes[d])) return kTakes;
  }
  return {};
}

void interpret(ir::ExternCall& call) {
  const auto& kernel = *call.op.as<ir::ExternKernel>();
  const auto axis = static_cast<std::size_t>(integer(kernel, "axis", 0));
  const bool ring = integer(kernel, "ring", 0) != 0;
  const ir::Tensor& rows = call.reads[1];
  const std::vector<std::int64_t> first = call.reads[2].values<std::int64_t>();
  const ir::Tensor& old = call.reads[0];
  ir::Tensor& out = call.writes[0];
  const auto item = static_cast<std::size_t>(ir::size_of(out.dtype));
  if (integer(kernel, "grows", 0) == 0) {
    out.bytes = old.bytes;
  } else {
    // Rows of the old cache before the first new one; the rest is 0 until rows are written.
    std::fill(out.bytes.begin(), out.bytes.end(), std::byte{0});
    std::size_t outer = 1, inner = item;
    for (std::size_t d = 0; d < axis; ++d) outer *= static_cast<std::size_t>(out.sizes[d]);
    for (std::size_t d = axis + 1; d < out.sizes.size(); ++d) inner *= static_cast<std::size_t>(out.sizes[d]);
    const auto had = static_cast<std::size_t>(old.sizes[axis]),
               has = static_cast<std::size_t>(out.sizes[axis]);
    for (std::size_t k = 0; k < outer; ++k) {
      const std::int64_t begin = first[k / (outer / static_cast<std::size_t>(out.sizes[0]))];
      const std::size_t kept =
          std::min({had, has, static_cast<std::size_t>(std::max<std::int64_t>(begin, 0))});
      std::copy_n(old.bytes.begin() + static_cast<std::ptrdiff_t>(k * had * inner), kept * inner,
                  out.bytes.begin() + static_cast<std::ptrdiff_t>(k * has * inner));
    }
  }
  std::vector<std::int64_t> at(rows.sizes.size(), 0);
  for (std::int64_t n = 0; n < rows.numel(); ++n) {
    std::int64_t position = first[static_cast<std::size_t>(at[0])] + at[axis];
    const std::int64_t size = out.sizes[axis];
    if (ring) position = (position % size + size) % size;
    if (position >= 0 && position < size) {
      std::int64_t to = 0;
      for (std::size_t d = 0; d < at.size(); ++d) to = to * out.sizes[d] + (d == axis ? position : at[d]);
      std::copy_n(rows.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(n) * item), item,
                  out.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(to) * item));
    }
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < rows.sizes[d]) break;
      at[d] = 0;
    }
  }
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "write_rows",
    .strided = true,
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::copy,
    .flops = {},
    .sources = runtime_sources("write_rows"),
}};

}  // namespace
}  // namespace braid::codegen
