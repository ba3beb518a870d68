// What this target refuses, and why.
#include <fmt/format.h>

#include "codegen/cuda/scalar.h"
#include "codegen/cuda/step.h"
#include "ir/collective_algorithm.h"
#include "ir/error.h"

namespace braid::codegen::cuda {
namespace {

constexpr int kNoSuchOperation = 640;
constexpr int kNoSuchCollective = 641;
constexpr int kNoSuchPolicy = 642;
constexpr int kNoSuchAlgorithm = 645;

bool reduces(ir::CollectiveKind kind) {
  return kind == ir::CollectiveKind::all_reduce || kind == ir::CollectiveKind::reduce_scatter;
}

void check_collective(const ir::Graph& graph, ir::OpId id, const ir::CollectiveKernel& k) {
  const ir::Location where{.node = node_names(graph, std::span(&id, 1)),
                           .op = std::string(to_string(k.kind))};
  for (const auto* refs : {&k.inputs, &k.outputs}) {
    for (const ir::TensorRef& ref : *refs) {
      ir::internal_check(ir::is_contiguous(ref.sizes, ref.strides), "operand '{}' of '{}' is not contiguous",
                         graph[ref.buffer].name, graph[id].name);
    }
  }
  const bool send = k.kind == ir::CollectiveKind::send, recv = k.kind == ir::CollectiveKind::recv;
  ir::internal_check(recv ? !k.outputs.empty() : !k.inputs.empty(), "'{}' has no operand", graph[id].name);
  ir::internal_check(send || recv || k.inputs.size() == k.outputs.size(), "'{}' has inputs without outputs",
                     graph[id].name);
  if (!k.algorithm.empty() && k.algorithm != ir::kAutomaticAlgorithm && k.algorithm != "library") {
    ir::user_error(
        kNoSuchAlgorithm, where,
        fmt::format("the CUDA target has no '{}' kernel for {}: NCCL chooses its algorithm by itself, "
                    "and takes its kernels on symmetric memory where they apply",
                    k.algorithm, to_string(k.kind)),
        "leave 'algorithm' out, or use --force-kernel '*=automatic' or --target cpu");
  }
  if (!reduces(k.kind)) return;
  for (const ir::TensorRef& ref : k.inputs) {
    const ir::DType dtype = graph[ref.buffer].dtype;
    const bool small = dtype == ir::DType::i16 || dtype == ir::DType::u16;
    const bool truth =
        dtype == ir::DType::boolean && k.reduce != ir::ReduceKind::max && k.reduce != ir::ReduceKind::min;
    const bool mean = k.reduce == ir::ReduceKind::avg && !ir::is_float(dtype);
    if (small || truth || mean) {
      ir::user_error(kNoSuchCollective, where,
                     fmt::format("NCCL has no '{}' reduction of {}", to_string(k.reduce), to_string(dtype)),
                     "cast to f32 or i32 before the collective, or use --target cpu");
    }
  }
}

}  // namespace

void check_supported(const ir::Schedule& schedule, const std::vector<Unit>& units) {
  const ir::Graph& graph = schedule.graph;
  std::string refused;
  ir::Location where;
  for (const Unit& unit : units) {
    for (const ir::OpId& id : unit.ops) {
      const ir::Operation& op = graph[id];
      std::string what;
      if (const auto* k = op.as<ir::ExternKernel>())
        what = k->callee.empty() ? "an operation without a body" : "'" + k->callee + "'";
      if (const auto* k = op.as<ir::RegionKernel>()) what = fmt::format("a '{}' region", to_string(k->kind));
      if (const auto* k = op.as<ir::CollectiveKernel>()) check_collective(graph, id, *k);
      if (what.empty()) continue;
      const std::string name = node_names(graph, std::span(&id, 1));
      if (refused.empty()) where.node = name;
      refused += (refused.empty() ? "" : ", ") + what + " (" + name + ")";
    }
  }
  // All in one message.
  if (!refused.empty()) {
    ir::user_error(kNoSuchOperation, where, "the CUDA target does not have: " + refused, "use --target cpu");
  }
  if (schedule.channels == ir::ChannelPolicy::pair || schedule.channels == ir::ChannelPolicy::edge) {
    ir::user_error(
        kNoSuchPolicy, {},
        fmt::format("the CUDA target issues collectives in one order, the program was scheduled for '{}'",
                    to_string(schedule.channels)),
        "schedule with --channels global or communicator");
  }
}

}  // namespace braid::codegen::cuda
