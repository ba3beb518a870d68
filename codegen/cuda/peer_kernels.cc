#include "codegen/cuda/peer_kernels.h"

#include <fmt/format.h>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/scalar.h"
#include "codegen/cuda/step.h"
#include "ir/collective_table.h"
#include "ir/comm_buffer.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen::cuda {
namespace {

using ir::Algorithm;
using ir::CollectiveKind;
using ir::Expr;

bool same_place(const ir::TensorRef& a, const ir::TensorRef& b, const ir::Graph& graph) {
  const ir::MemoryRegion x = ir::region(graph, a.buffer), y = ir::region(graph, b.buffer);
  const Expr size = ir::size_of(graph[a.buffer].dtype);
  return x.storage == y.storage && x.offset + a.offset * size == y.offset + b.offset * size;
}

bool overlap(const ir::TensorRef& a, const ir::TensorRef& b, const ir::Graph& graph) {
  return ir::root_storage(graph, a.buffer) == ir::root_storage(graph, b.buffer) &&
         ir::may_overlap(graph, a, b);
}

}  // namespace

bool is_peer_kernel(const ir::CollectiveKernel& k) {
  return k.algorithm != Algorithm::library && ir::row_of(k.kind).nccl.contains(k.algorithm);
}

void check_peer_kernel(const ir::Graph& graph, ir::OpId id) {
  const auto& k = *graph[id].as<ir::CollectiveKernel>();
  const ir::Location where{.node = node_names(graph, std::span(&id, 1)),
                           .op = std::string(to_string(k.kind))};
  const std::string hint = "use --force-kernel '" + graph[id].name + "=library'";
  const auto check_place = [&](const ir::TensorRef& ref, bool is_read) {
    if (ir::reachable_by_peers(graph, ref, k.group, is_read)) return;
    ir::user_error(errors::kCudaCollectiveKernel, where,
                   fmt::format("'{}' is not in symmetric memory of group '{}', where peers' '{}' "
                               "kernels could reach it",
                               graph[ref.buffer].name, graph[k.group].name, to_string(k.algorithm)),
                   hint);
  };
  for (std::size_t i = 0; i < k.inputs.size(); ++i) {
    check_place(k.inputs[i], true);
    if (k.algorithm == Algorithm::two_shot) check_place(k.outputs[i], false);
    // Each operand has a kernel of its own, and the first would write what a later one reads.
    for (std::size_t j = 0; j < k.outputs.size(); ++j) {
      const bool in_place =
          i == j && k.kind == CollectiveKind::all_reduce && same_place(k.inputs[i], k.outputs[i], graph);
      if (in_place || !overlap(k.inputs[i], k.outputs[j], graph)) continue;
      ir::user_error(errors::kCudaCollectiveKernel, where,
                     fmt::format("a result of a '{}' kernel may not overlap its operand '{}'",
                                 to_string(k.algorithm), graph[k.inputs[i].buffer].name),
                     hint);
    }
  }
}

std::vector<std::string> peer_kernel_launches(const ir::Graph& graph, const MemoryMap& memory,
                                              const ir::CollectiveKernel& k, int group) {
  const auto ranks = graph[k.group].size();
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < k.inputs.size(); ++i) {
    const ir::TensorRef &in = k.inputs[i], &out = k.outputs[i];
    const ir::DType dtype = graph[in.buffer].dtype;
    const std::string type = memory_type(dtype);
    const std::string op = k.reduce == ir::ReduceKind::avg ? "Mean" : fold(k.reduce);
    const Expr count = ir::block_elements(k, i, ranks);
    std::string kernel = fmt::format("{}_{}", to_string(k.algorithm), to_string(k.kind));
    const bool in_place =
        memory.pointer(in.buffer, in.offset) == memory.pointer(out.buffer, out.offset);  // also by the plan
    if (k.algorithm == Algorithm::one_shot && k.kind == CollectiveKind::all_reduce && in_place)
      kernel += "_in_place";
    kernel += ir::row_of(k.kind).reduces ? fmt::format("<{}, {}>", op, type) : fmt::format("<{}>", type);
    // Peers also write a two_shot's result.
    const std::string to = k.algorithm == Algorithm::two_shot ? memory.segment_offset(out.buffer, out.offset)
                                                              : memory.pointer(out.buffer, out.offset);
    const std::string member =
        graph[k.group].members() == graph.ranks ? "" : fmt::format(" && in_group({})", group);
    // The bytes that one rank reduces or copies from one peer.
    const std::string bytes =
        fmt::format("count * {}{}", ir::size_of(dtype),
                    k.algorithm == Algorithm::two_shot ? fmt::format(" / {}", ranks) : "");
    lines.push_back(fmt::format("if (const int64_t count = {}; count > 0{}) {{", host_expr(count), member));
    lines.push_back(
        fmt::format("  BRAID_TRY(BRAID_LAUNCH(({}), peer_blocks({}), kPeerThreads, 0, "
                    "communication_, peers({}), {}, {}, count));",
                    kernel, bytes, group, memory.segment_offset(in.buffer, in.offset), to));
    lines.emplace_back("}");
  }
  return lines;
}

}  // namespace braid::codegen::cuda
