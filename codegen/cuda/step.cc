#include "codegen/cuda/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda/declared_steps.h"
#include "codegen/cuda/forms.h"
#include "codegen/cuda/loop_writer.h"
#include "codegen/cuda/naive_gemm.h"
#include "codegen/cuda/peer_kernels.h"
#include "codegen/cuda/recurrence.h"
#include "codegen/cuda/scalar.h"
#include "codegen/cuda/tile_product.h"
#include "codegen/extern_call.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/fused_loops.h"

namespace braid::codegen::cuda {
namespace {

using ir::CollectiveKind;
using ir::DType;
using ir::Expr;

// NCCL has no 16-bit integers and no bool; data that is only moved is sent as bytes.
const char* nccl_type(DType dtype) {
  switch (byte_type(dtype)) {
    case DType::f32:
      return "ncclFloat32";
    case DType::f64:
      return "ncclFloat64";
    case DType::f16:
      return "ncclFloat16";
    case DType::bf16:
      return "ncclBfloat16";
    case DType::i8:
      return "ncclInt8";
    case DType::i32:
      return "ncclInt32";
    case DType::i64:
      return "ncclInt64";
    case DType::u8:
    case DType::boolean:
      return "ncclUint8";
    case DType::u32:
      return "ncclUint32";
    case DType::u64:
      return "ncclUint64";
    default:
      break;
  }
  return nullptr;
}

const char* nccl_op(ir::ReduceKind kind) {
  constexpr const char* kNames[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};
  return kNames[static_cast<std::size_t>(kind)];
}

class StepWriter {
 public:
  StepWriter(const ir::Schedule& schedule, const std::vector<Unit>& units, const MemoryMap& memory,
             const StreamPlan& streams, KernelTable& kernels, const CudaOptions& options)
      : graph_(schedule.graph),
        units_(units),
        memory_(memory),
        streams_(streams),
        kernels_(kernels),
        options_(options),
        declared_(schedule, memory) {}

  StepCode write() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const UnitKind kind = kind_of(graph_, units_[u]);
      if (kind == UnitKind::collective && is_peer_kernel(*collective(u))) {
        write_peer_kernels(u);
      } else if (kind == UnitKind::collective) {
        u = write_collectives(u);
      } else if (kind == UnitKind::compute) {
        write_compute(u);
      } else {
        declared_.hold(units_[u].ops);
      }
    }
    write_end();
    out_.buffers = declared_.declarations();
    out_.buffer_count = declared_.buffers();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_.text += wrapped(text, 4); }

  void begin_unit(const std::vector<ir::OpId>& ops, const std::string& fused = {}) {
    std::string names;
    for (ir::OpId op : ops) names += (names.empty() ? "" : ", ") + graph_[op].name;
    const std::string nodes = node_names(graph_, ops);
    const bool communicates = graph_[ops[0]].as<ir::CollectiveKernel>() != nullptr;
    out_.nodes.push_back(fmt::format("{{{}, {}, BRAID_NODE_{}, -1, 0}}",
                                     c_string(fused.empty() ? names : fused), c_string(nodes),
                                     communicates ? "BLOCKING" : "KERNEL"));
    out_.text += "\n";
    line("// " + c_comment(names));
    line(fmt::format("at_node({});", c_string(nodes)));
  }

  void waits(std::size_t u, const char* function) {
    for (int event : streams_.waits[u]) {
      const auto edge = std::find_if(streams_.edges.begin(), streams_.edges.end(),
                                     [&](const StreamEdge& e) { return e.to == u && e.event == event; });
      std::string why;
      if (edge != streams_.edges.end()) {
        const std::string& name = graph_[units_[edge->from].ops.back()].name;
        const char* reason = edge->reason == EdgeReason::before_collective ? "last touched its memory"
                             : edge->reason == EdgeReason::reads_result    ? "made its operands"
                                                                           : "reads what is overwritten";
        why = c_comment(fmt::format("  // {} {}", name, reason));
      }
      line(fmt::format("BRAID_TRY({}({}));{}", function, event, why));
    }
  }

  // -------------------------------------------------------------------------------------------------------
  // kernels

  void write_compute(std::size_t u) {
    const Unit& unit = units_[u];
    begin_unit(unit.ops, unit.fused ? unit.name : "");
    waits(u, "compute_waits");
    line(declared_.next(unit.ops, "compute_"));
    if (unit.fused && unit.ops.size() > 1) {
      write_fused(unit);
    } else {
      write_single(unit.ops[0]);
    }
    if (streams_.records[u] >= 0) line(fmt::format("BRAID_TRY(compute_records({}));", streams_.records[u]));
  }

  void write_fused(const Unit& unit) {
    std::string why;
    const std::optional<ir::FusedLoops> fused = ir::analyse_fused(graph_, unit.ops, &why);
    ir::internal_check(fused.has_value(), "a fused node is not one: {}", why);
    LoopPlan plan = plan_loops(graph_, *fused, unit.local, options_.portable_shared_bytes);
    const std::int64_t shared = ir::bounds(plan.shared_bytes).max;
    ir::internal_check(shared <= options_.max_shared_bytes,
                       "a fused node needs {} bytes of shared memory: the schedule is not legalised", shared);
    write_loops(std::move(plan), unit.ops);
  }

  void write_loops(LoopPlan plan, std::span<const ir::OpId> ops) {
    if (!options_.precise) choose_forms(graph_, plan);
    write_launch(loop_kernel(graph_, plan, options_.portable_shared_bytes), ops);
  }

  void write_single(ir::OpId op) {
    if (graph_[op].as<ir::Loops>() != nullptr) {
      write_loops(plan_loops(graph_, op), std::span(&op, 1));
    } else if (graph_[op].as<ir::Gemm>() != nullptr) {
      write_gemm(op);
    } else if (graph_[op].as<ir::Convolution>() != nullptr) {
      write_launch(tile_product_kernel(graph_, op, options_.precise), std::span(&op, 1));
    } else if (graph_[op].as<ir::Recurrence>() != nullptr) {
      write_launch(recurrence_kernel(graph_, op), std::span(&op, 1));
    } else if (const auto* kernel = graph_[op].as<ir::ExternKernel>()) {
      write_extern(*kernel);
    } else {
      throw ir::InternalError(fmt::format("operation '{}' has no CUDA code", graph_[op].name));
    }
  }

  void write_launch(const Launch& launch, std::span<const ir::OpId> ops) {
    const std::string name = kernels_.add(launch, node_names(graph_, ops));
    std::string arguments;
    for (const std::string& argument : launch.arguments) {
      std::string text = argument;
      if (argument == "$site") {
        text = fmt::format("{}", out_.index_sites.size());
      } else if (argument[0] == '$') {
        text = memory_.pointer(launch.buffers[static_cast<std::size_t>(std::stoi(argument.substr(1)))]);
      }
      arguments += ", " + text;
    }
    if (launch.checks_indices) out_.index_sites.push_back(node_names(graph_, ops));
    if (launch.spills) note_spilled_rows(launch);
    std::string declared = "count = " + launch.count;
    for (const auto& [local, value] : launch.locals) declared += fmt::format(", {} = {}", local, value);
    std::string begin = fmt::format("if (const int64_t {}; ", declared);
    for (const Variant& variant : launch.variants) {
      const std::string condition = variant.condition.empty() ? "" : " && " + variant.condition;
      line(fmt::format("{}count > 0{}) {{", begin, condition));
      line(fmt::format("  BRAID_TRY(BRAID_LAUNCH({}, {}, {}, {}, compute_{}));",
                       instance_name(name, variant.argument), variant.grid, variant.block, variant.shared,
                       arguments));
      begin = "} else if (";
    }
    line("}");
  }

  void note_spilled_rows(const Launch& launch) {
    const std::string rows = fmt::format("{{{}, {}}}", launch.count, launch.locals.at(0).second);
    if (std::find(out_.spilled_rows.begin(), out_.spilled_rows.end(), rows) == out_.spilled_rows.end())
      out_.spilled_rows.push_back(rows);
  }

  void write_extern(const ir::ExternKernel& kernel) {
    const ExternText text = {
        [this](const ir::TensorRef& ref, bool) { return memory_.pointer(ref.buffer, ref.offset); },
        host_expr};
    line(fmt::format("if (!call_extern({})) return false;", extern_arguments(graph_, kernel, text)));
  }

  void write_gemm(ir::OpId op) {
    if (kernel_of(graph_, *graph_[op].as<ir::Gemm>()) == ProductKernel::tile) {
      write_launch(tile_product_kernel(graph_, op, options_.precise), std::span(&op, 1));
      return;
    }
    const std::optional<GemmPlan> plan = plan_gemm(graph_, op, memory_);
    if (!plan) {
      line("// Not a product that the matrix library takes: " +
           why_not_library(graph_, *graph_[op].as<ir::Gemm>()) + ".");
      write_launch(naive_gemm_kernel(graph_, op), std::span(&op, 1));
      return;
    }
    auto product = std::find(out_.products.begin(), out_.products.end(), plan->product);
    const auto index = product - out_.products.begin();
    if (product == out_.products.end()) out_.products.push_back(plan->product);
    line(fmt::format("BRAID_TRY(gemm({}, {}, {}, {}, {}, {}));", index, plan->a, plan->b, plan->bias,
                     plan->residual, plan->d));
  }

  // ---------------------------------------------------------------------------------------------------
  // collectives

  int group_index(ir::GroupId group) {
    const auto at = std::find(out_.groups.begin(), out_.groups.end(), group);
    if (at != out_.groups.end()) return static_cast<int>(at - out_.groups.begin());
    out_.groups.push_back(group);
    return static_cast<int>(out_.groups.size()) - 1;
  }

  static bool is_transfer(const ir::CollectiveKernel& k) { return ir::row_of(k.kind).point_to_point; }
  const ir::CollectiveKernel* collective(std::size_t u) const {
    return u < units_.size() ? graph_[units_[u].ops[0]].as<ir::CollectiveKernel>() : nullptr;
  }

  void write_peer_kernels(std::size_t u) {
    const ir::CollectiveKernel& k = *collective(u);
    begin_unit(units_[u].ops);
    waits(u, "communication_waits");
    line(declared_.next(units_[u].ops, "communication_"));
    line("comes_to_collective();");
    const int group = group_index(k.group);
    for (const std::string& text : peer_kernel_launches(graph_, memory_, k, group)) line(text);
    if (streams_.records[u] >= 0)
      line(fmt::format("BRAID_TRY(communication_records({}));", streams_.records[u]));
    out_.peer_groups.insert(group);
  }

  // Writes the collective at `first` and those issued with it. Returns the last unit written.
  std::size_t write_collectives(std::size_t first) {
    std::size_t end = first + 1;
    if (units_[first].transfers >= 0) {
      while (end < units_.size() && units_[end].transfers == units_[first].transfers) ++end;
    }
    std::vector<std::string> calls;
    std::vector<ir::OpId> ops;
    for (std::size_t u = first; u < end; ++u) {
      ops.push_back(units_[u].ops[0]);
      add_calls(*collective(u), calls);
    }
    begin_unit(ops);
    for (std::size_t u = first; u < end; ++u) waits(u, "communication_waits");
    line(declared_.next(ops, "communication_"));
    line("BRAID_TRY(collective([&] {");
    for (const std::string& call : calls) line("  " + call);
    line("  return true;");
    line("}));");
    for (std::size_t u = first; u < end; ++u) {
      if (streams_.records[u] >= 0)
        line(fmt::format("BRAID_TRY(communication_records({}));", streams_.records[u]));
    }
    return end - 1;
  }

  // A rank outside the group skips a call; so does one that would send to itself.
  std::string condition_of(const ir::CollectiveKernel& k) {
    if (is_transfer(k)) return fmt::format("if (transfers({}, {})) ", group_index(k.group), k.root);
    if (graph_[k.group].members() == graph_.ranks) return "";
    return fmt::format("if (in_group({})) ", group_index(k.group));
  }

  void add_calls(const ir::CollectiveKernel& k, std::vector<std::string>& calls) {
    const std::string who = condition_of(k);
    const std::string tail = fmt::format("group({}), communication_)", group_index(k.group));
    const auto ranks = graph_[k.group].size();
    const std::size_t operands = std::max(k.inputs.size(), k.outputs.size());
    for (std::size_t i = 0; i < operands; ++i) {
      const ir::TensorRef* in = i < k.inputs.size() ? &k.inputs[i] : nullptr;
      const ir::TensorRef* out = i < k.outputs.size() ? &k.outputs[i] : nullptr;
      const DType dtype = graph_[(in != nullptr ? in : out)->buffer].dtype;
      const std::string from = in != nullptr ? memory_.pointer(in->buffer, in->offset) : "";
      const std::string to = out != nullptr ? memory_.pointer(out->buffer, out->offset) : "";
      const char* type = nccl_type(dtype);
      // The elements that the call counts.
      const auto count = [&](const ir::TensorRef& ref) {
        const Expr n = ir::numel(ref.sizes) * (type == nullptr ? ir::size_of(dtype) : 1);
        return fmt::format("static_cast<size_t>({})", host_expr(n));
      };
      const std::string typed = fmt::format("{}, ", type == nullptr ? "ncclUint8" : type);
      const auto call = [&](const std::string& text) {
        calls.push_back(fmt::format("{}BRAID_TRY({});", who, text));
      };
      const std::string op = ir::row_of(k.kind).reduces ? fmt::format("{}, ", nccl_op(k.reduce)) : "";
      switch (k.kind) {
        case CollectiveKind::all_reduce:
          call(fmt::format("ncclAllReduce({}, {}, {}, {}{}{}", from, to, count(*in), typed, op, tail));
          break;
        case CollectiveKind::all_gather:
          call(fmt::format("ncclAllGather({}, {}, {}, {}{}", from, to, count(*in), typed, tail));
          break;
        case CollectiveKind::reduce_scatter:
          call(fmt::format("ncclReduceScatter({}, {}, {}, {}{}{}", from, to, count(*out), typed, op, tail));
          break;
        case CollectiveKind::broadcast:
          call(fmt::format("ncclBroadcast({}, {}, {}, {}{}, {}", from, to, count(*in), typed, k.root, tail));
          break;
        case CollectiveKind::all_to_all: {
          ir::TensorRef slab = *in;
          const std::optional<Expr> part = ir::divide_exactly(ir::numel(in->sizes), ranks);
          ir::internal_check(part.has_value(), "an all-to-all of '{}' has unequal slabs",
                             graph_[in->buffer].name);
          slab.sizes = {*part};
          for (std::int64_t peer = 0; peer < ranks; ++peer) {
            call(fmt::format("ncclSend({}, {}, {}{}, {}",
                             memory_.pointer(in->buffer, in->offset + *part * peer), count(slab), typed, peer,
                             tail));
            call(fmt::format("ncclRecv({}, {}, {}{}, {}",
                             memory_.pointer(out->buffer, out->offset + *part * peer), count(slab), typed,
                             peer, tail));
          }
          break;
        }
        case CollectiveKind::send:
          call(fmt::format("ncclSend({}, {}, {}{}, {}", from, count(*in), typed, k.root, tail));
          break;
        case CollectiveKind::recv:
          call(fmt::format("ncclRecv({}, {}, {}{}, {}", to, count(*out), typed, k.root, tail));
          break;
      }
    }
  }

  void write_end() {
    if (streams_.join) {
      out_.text += "\n";
      line("// Whoever comes next comes after all collectives.");
      line(fmt::format("BRAID_TRY(compute_waits({}));",
                       streams_.records[static_cast<std::size_t>(streams_.last_collective)]));
    }
    for (const MemoryMap::OutputCopy& copy : memory_.output_copies()) {
      const ir::Buffer& buffer = graph_[copy.buffer];
      const std::string& name = graph_.outputs[static_cast<std::size_t>(copy.index)].name;
      ir::internal_check(ir::is_contiguous(buffer.sizes, ir::strides_of(graph_, copy.buffer)),
                         "output '{}' is not contiguous", name);
      out_.text += "\n";
      line(c_comment("// Output '" + name + "' is a copy."));
      line(declared_.next(copy));
      line(fmt::format("if (const int64_t bytes = {}; bytes > 0) {{",
                       host_expr(ir::numel(buffer.sizes) * ir::size_of(buffer.dtype))));
      line(fmt::format(
          "  BRAID_TRY(cudaMemcpyAsync(outputs_[{}], {}, bytes, cudaMemcpyDeviceToDevice, compute_));",
          copy.index, memory_.pointer(copy.buffer)));
      line("}");
    }
  }

  const ir::Graph& graph_;
  const std::vector<Unit>& units_;
  const MemoryMap& memory_;
  const StreamPlan& streams_;
  KernelTable& kernels_;
  const CudaOptions& options_;
  DeclaredSteps declared_;
  StepCode out_;
};

}  // namespace

std::string node_names(const ir::Graph& graph, std::span<const ir::OpId> ops) {
  std::vector<std::string> names;
  for (ir::OpId op : ops) {
    for (const std::string& origin : graph[op].origins) {
      if (!origin.empty() && std::find(names.begin(), names.end(), origin) == names.end())
        names.push_back(origin);
    }
  }
  if (names.empty()) return graph[ops.back()].name;
  return fmt::format("{}", fmt::join(names, ", "));
}

StepCode write_step(const ir::Schedule& schedule, const std::vector<Unit>& units, const MemoryMap& memory,
                    const StreamPlan& streams, KernelTable& kernels, const CudaOptions& options) {
  return StepWriter(schedule, units, memory, streams, kernels, options).write();
}

}  // namespace braid::codegen::cuda
