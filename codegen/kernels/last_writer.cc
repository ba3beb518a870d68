// The extern kernel `last_writer` (runtime/host/last_writer.h).
#include "codegen/kernels/source_text.h"
#include "ir/element.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  const auto is_list = [&](const std::vector<ir::TensorRef>& refs) {
    return refs.size() == 1 && graph[refs[0].buffer].dtype == DType::i64 && refs[0].sizes.size() == 1;
  };
  if (!is_list(kernel.reads) || !is_list(kernel.writes))
    return "takes one list of int64 positions and makes one list of int64 writers";
  return {};
}

void interpret(ir::ExternCall& call) {
  const std::vector<std::int64_t> positions = call.reads[0].values<std::int64_t>();
  const std::int64_t count = call.writes[0].numel();
  std::vector<std::int64_t> writers(static_cast<std::size_t>(count), -1);
  for (std::size_t k = 0; k < positions.size(); ++k) {
    if (positions[k] >= 0 && positions[k] < count)
      writers[static_cast<std::size_t>(positions[k])] = static_cast<std::int64_t>(k);
  }
  call.writes[0] = ir::make_tensor(DType::i64, {count}, writers);
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "last_writer",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = {},
    .sources = runtime_sources("last_writer"),
}};

}  // namespace
}  // namespace braid::codegen
