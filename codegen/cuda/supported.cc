// Refuses what this target does not support, with the reason.
#include "codegen/cuda/supported.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/peer_kernels.h"
#include "codegen/cuda/scalar.h"
#include "codegen/cuda/step.h"
#include "codegen/extern_call.h"
#include "codegen/refused_operations.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen::cuda {
namespace {

void check_collective(const ir::Graph& graph, ir::OpId id, const ir::CollectiveKernel& k) {
  const ir::Location where{.node = node_names(graph, std::span(&id, 1)),
                           .op = std::string(to_string(k.kind))};
  for (const auto* refs : {&k.inputs, &k.outputs}) {
    for (const ir::TensorRef& ref : *refs) {
      ir::internal_check(ir::is_contiguous(ref.sizes, ref.strides), "operand '{}' of '{}' is not contiguous",
                         graph[ref.buffer].name, graph[id].name);
    }
  }
  const ir::CollectiveRow& row = ir::row_of(k.kind);
  ir::internal_check(row.in == ir::Blocks::none ? !k.outputs.empty() : !k.inputs.empty(),
                     "'{}' has no operand", graph[id].name);
  ir::internal_check(row.point_to_point || k.inputs.size() == k.outputs.size(),
                     "'{}' has inputs without outputs", graph[id].name);
  const bool chosen = k.algorithm != ir::Algorithm::unasked && k.algorithm != ir::Algorithm::automatic;
  if (chosen && !row.nccl.contains(k.algorithm)) {
    ir::user_error(
        errors::kCudaCollectiveKernel, where,
        fmt::format("the CUDA target has no '{}' kernel for {}, and NCCL takes no algorithm per call",
                    to_string(k.algorithm), to_string(k.kind)),
        "leave 'algorithm' out, or use --force-kernel '*=automatic' or --target cpu");
  }
  if (is_peer_kernel(k)) check_peer_kernel(graph, id);
  if (!ir::row_of(k.kind).reduces) return;
  for (const ir::TensorRef& ref : k.inputs) {
    const ir::DType dtype = graph[ref.buffer].dtype;
    const bool small = (dtype == ir::DType::i16 || dtype == ir::DType::u16) && !is_peer_kernel(k);
    const bool truth =
        dtype == ir::DType::boolean && k.reduce != ir::ReduceKind::max && k.reduce != ir::ReduceKind::min;
    const bool mean = k.reduce == ir::ReduceKind::avg && !ir::is_float(dtype);
    if (small || truth || mean) {
      ir::user_error(errors::kCudaReduction, where,
                     fmt::format("NCCL has no '{}' reduction of {}", to_string(k.reduce), to_string(dtype)),
                     "cast to f32 or i32 before the collective, or use --target cpu");
    }
  }
}

}  // namespace

std::optional<PartedTransfer> parted_transfer(const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  std::vector<ir::OpId> collectives;
  for (ir::OpId id : ir::execution_order(schedule)) {
    if (graph[id].as<ir::CollectiveKernel>() != nullptr) collectives.push_back(id);
  }
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const auto& send = *graph[collectives[k]].as<ir::CollectiveKernel>();
    const ir::CommGroup& pairs = graph[send.group];
    if (send.kind != ir::CollectiveKind::send || pairs.size() != 2) continue;
    std::optional<ir::OpId> between;
    for (std::size_t m = k + 1; m < collectives.size(); ++m) {
      const auto& c = *graph[collectives[m]].as<ir::CollectiveKernel>();
      if (c.kind == ir::CollectiveKind::recv && c.group == send.group && c.root != send.root) {
        if (between) return PartedTransfer{collectives[k], *between, collectives[m]};
        break;
      }
      const bool transfer = ir::row_of(c.kind).point_to_point;
      const auto with_sender = [&](const std::vector<int>& pair) {
        return graph[c.group].part_of(pair[static_cast<std::size_t>(1 - send.root)]) != nullptr;
      };
      if (!transfer && std::any_of(pairs.parts.begin(), pairs.parts.end(), with_sender))
        between = collectives[m];
    }
  }
  return std::nullopt;
}

void check_supported(const ir::Schedule& schedule, const std::vector<Unit>& units) {
  const ir::Graph& graph = schedule.graph;
  RefusedOperations refused;
  for (const Unit& unit : units) {
    for (const ir::OpId& id : unit.ops) {
      const ir::Operation& op = graph[id];
      std::string what;
      if (op.as<ir::ExternKernel>() != nullptr) what = extern_refusal(graph, op, kTargetName);
      if (const auto* k = op.as<ir::Measure>())
        what = fmt::format("the size '{}', which only the data of a step tell", k->dim.dim_name());
      if (const auto* k = op.as<ir::RegionKernel>()) what = fmt::format("a '{}' region", to_string(k->kind));
      if (const auto* k = op.as<ir::CollectiveKernel>()) check_collective(graph, id, *k);
      refused.add(node_names(graph, std::span(&id, 1)), what);
    }
  }
  refused.report(errors::kNotInCuda, "CUDA");
  if (const auto parted = parted_transfer(schedule)) {
    ir::user_error(
        errors::kCudaChannelPolicy, {.node = node_names(graph, std::span(&parted->send, 1)), .op = "send"},
        fmt::format("'{}' is between '{}' and its receive '{}': on one stream they would deadlock",
                    graph[parted->between].name, graph[parted->send].name, graph[parted->receive].name),
        "move the receive next to the send");
  }
  if (schedule.channels == ir::ChannelPolicy::pair || schedule.channels == ir::ChannelPolicy::edge) {
    ir::user_error(
        errors::kCudaChannelPolicy, {},
        fmt::format(
            "the CUDA target issues collectives in one order, but the program's channel policy is '{}'",
            to_string(schedule.channels)),
        "write 'channels global' or 'channels communicator' into the program");
  }
}

}  // namespace braid::codegen::cuda
