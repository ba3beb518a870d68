// The extern kernel `non_zero` (runtime/host/non_zero.h).
#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 1 || kernel.writes.size() != 1) return "takes one tensor and makes one";
  const ir::TensorRef &flags = kernel.reads[0], &positions = kernel.writes[0];
  if (graph[flags.buffer].dtype != DType::boolean || graph[positions.buffer].dtype != DType::i64)
    return "takes bool and makes int64";
  if (flags.sizes.empty() || positions.sizes.size() != 2 ||
      !positions.sizes[0].is_constant(static_cast<std::int64_t>(flags.sizes.size())))
    return "makes positions [rank, found]";
  return {};
}

void interpret(ir::ExternCall& call) {
  const ir::Tensor& flags = call.reads[0];
  const std::int64_t found = call.writes[0].sizes[1], rank = call.writes[0].sizes[0];
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rank * found));
  std::int64_t k = 0;
  for (std::int64_t at = 0; at < flags.numel(); ++at) {
    if (flags.bytes[static_cast<std::size_t>(at)] == std::byte{0}) continue;
    ir::internal_check(k < found, "non_zero finds more elements than {}", found);
    for (std::int64_t d = rank - 1, rest = at; d >= 0; --d) {
      const std::int64_t size = flags.sizes[static_cast<std::size_t>(d)];
      positions[static_cast<std::size_t>(d * found + k)] = rest % size;
      rest /= size;
    }
    ++k;
  }
  ir::internal_check(k == found, "non_zero finds {} elements, not {}", k, found);
  call.writes[0] = ir::make_tensor(DType::i64, {rank, found}, positions);
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "non_zero",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = {},
    .sources = host_sources("non_zero"),
}};

}  // namespace
}  // namespace braid::codegen
