// Operations of a step, in order.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/cpp/program_emitter.h"
#include "codegen/extern_call.h"
#include "codegen/kernel_name.h"
#include "ir/collective_table.h"
#include "ir/copy_loop.h"
#include "ir/error.h"
#include "ir/measured_dims.h"

namespace braid::codegen::cpp {

using namespace ir;

std::string ProgramEmitter::label(OpId op) const {
  const Operation& o = s_.graph[op];
  return o.origins.empty() ? o.name : o.origins.front();
}

// Emits a comment with the ONNX nodes, or the operations if there are none.
void ProgramEmitter::note(const std::vector<OpId>& ops, const std::string& what) {
  std::vector<std::string> names;
  for (OpId op : ops) {
    const Operation& o = s_.graph[op];
    for (const std::string& origin : o.origins) {
      if (std::find(names.begin(), names.end(), origin) == names.end()) names.push_back(origin);
    }
  }
  if (names.empty()) {
    for (OpId op : ops) names.push_back(s_.graph[op].name);
  }
  step_.push_back("");
  std::string line = "//";
  for (const std::string& name : names) {
    if (line.size() + name.size() > 110) {
      step_.push_back(line);
      line = "//";
    }
    line += " " + c_comment(name);
  }
  step_.push_back(what.empty() ? line : line + ": " + c_comment(what));
  if (begun_) {
    step_.push_back(fmt::format("node({});", nodes_.size()));
    nodes_.push_back(*std::exchange(begun_, std::nullopt));
  }
}

// The next emitted operation begins this node; if none of its operations is emitted, there is no node.
void ProgramEmitter::begin_node(const std::string& name, OpId op) {
  const Operation& o = s_.graph[op];
  Node node{name, label(op)};
  if (const auto* start = o.as<CollectiveKernel>()) {
    node.kind = start->blocking ? "BLOCKING" : "START";
    node.start = op;
  } else if (const auto* wait = o.as<WaitKernel>()) {
    node.kind = "WAIT";
    node.start = wait->start;
  } else if (const auto* release = o.as<ReleaseKernel>()) {
    node.kind = "RELEASE";
    node.start = release->start;
  }
  begun_ = std::move(node);
}

void ProgramEmitter::emit_nodes(const std::vector<ScheduleNode>& nodes) {
  for (const ScheduleNode& node : nodes) {
    switch (node.kind) {
      case ScheduleNode::Kind::single:
        begin_node(s_.graph[node.op].name, node.op);
        emit_op(node.op);
        break;
      case ScheduleNode::Kind::fused:
        begin_node(node.name, ops_of(node).front());
        emit_loops(ops_of(node));
        break;
      case ScheduleNode::Kind::grouped:
        emit_nodes(node.members);
        break;
    }
  }
}

void ProgramEmitter::emit_loops(const std::vector<OpId>& ops) {
  const Graph& graph = s_.graph;
  std::vector<bool> local;
  for (OpId op : ops) local.push_back(!has_memory(graph[op].outputs[0]));
  const LoopNest nest = make_loop_nest(graph, ops, local, overlap_);
  KernelText text = emit_kernel(graph, nest, overlap_);
  scratch_bytes_ = std::max(scratch_bytes_, text.scratch_bytes);
  const auto [it, fresh] = kernel_index_.try_emplace(text.parameters + text.body, kernels_.size());
  if (fresh) {
    kernels_.push_back({fmt::format("k{}_{}", kernels_.size(), kernel_name(graph, ops)), text, {}});
  }
  KernelFunction& kernel = kernels_[it->second];
  for (OpId op : ops) kernel.users.push_back(label(op));
  note(ops, {});
  std::vector<std::string> args;
  bool checks = false;
  for (const KernelArg& arg : text.args) {
    switch (arg.kind) {
      case KernelArg::Kind::buffer:
        args.push_back(address(arg.buffer, 0, !arg.written));
        break;
      case KernelArg::Kind::dim:
        args.push_back(names_(arg.dim));
        break;
      case KernelArg::Kind::scratch:
        args.push_back("scratch_");
        break;
      case KernelArg::Kind::scratch_stride:
        args.push_back("static_cast<int64_t>(scratch_stride_)");
        break;
      case KernelArg::Kind::index_error:
        args.push_back("&index_error_");
        checks = true;
        break;
      case KernelArg::Kind::site:
        args.push_back(fmt::format("{}", sites_.size()));
        sites_.push_back(label(arg.op));
        break;
    }
  }
  for (OpId op : ops) {
    if (const auto copy = copies_.find(op); copy != copies_.end())
      step_.push_back(fmt::format("copies({});", size(copy->second)));
  }
  step_.push_back(fmt::format("{}({});", kernel.name, fmt::join(args, ", ")));
  if (checks) step_.push_back("if (!indices_ok(kIndexSites)) return false;");
}

void ProgramEmitter::emit_op(OpId id) {
  std::visit([&](const auto& kernel) { emit(id, kernel); }, s_.graph[id].kernel);
}

void ProgramEmitter::emit(OpId id, const ExternKernel& kernel) {
  const ExternText text = {
      [this](const TensorRef& ref, bool written) { return address(ref.buffer, ref.offset, !written); },
      [this](Expr e) { return size(e); }};
  note({id}, kernel.callee);
  step_.push_back(fmt::format("if (!call_extern({}, {})) return false;", c_string(label(id)),
                              extern_arguments(s_.graph, kernel, text)));
}

void ProgramEmitter::emit(OpId id, const Measure& kernel) {
  const Graph& graph = s_.graph;
  const std::string& dim = kernel.dim.dim_name();
  const auto index = std::find(graph.dims.begin(), graph.dims.end(), kernel.dim) - graph.dims.begin();
  note({id}, "measures " + dim);
  step_.push_back(fmt::format("measure({}, *{}, {});", index,
                              address(kernel.value.buffer, kernel.value.offset), c_string(label(id))));
  step_.push_back(fmt::format("[[maybe_unused]] const int64_t {} = dims()[{}];", names_(kernel.dim), index));
  for (const std::size_t guard : guards_after(graph, execution_order(s_), id))
    step_.push_back(guard_call(graph.guards[guard], "dims()"));
}

void ProgramEmitter::emit(OpId id, const CollectiveKernel& kernel) {
  const auto members = s_.graph[kernel.group].size();
  note({id}, fmt::format("{} over '{}' starts", to_string(kernel.kind), s_.graph[kernel.group].name));
  const std::size_t count = std::max(kernel.inputs.size(), kernel.outputs.size());
  for (std::size_t k = 0; k < count; ++k) {
    Collective c{id,         k,  kernel.kind, kernel.group, kernel.root, kernel.reduce, kernel.algorithm,
                 DType::f32, {}, {},          label(id)};
    const bool has_in = k < kernel.inputs.size(), has_out = k < kernel.outputs.size();
    if (has_in) c.input = kernel.inputs[k];
    if (has_out) c.output = kernel.outputs[k];
    const TensorRef& ref = has_in ? c.input : c.output;
    c.dtype = s_.graph[ref.buffer].dtype;
    const std::size_t index = collectives_.size();
    const std::string start =
        fmt::format("start({}, {}, {}, {})", index, size(block_elements(kernel, k, members)),
                    has_in ? address(c.input.buffer, c.input.offset) : "nullptr",
                    has_out ? address(c.output.buffer, c.output.offset, false) : "nullptr");
    step_.push_back("if (!" + start + ") return false;");
    if (kernel.blocking)
      step_.push_back(fmt::format("if (!wait({0}) || !release({0})) return false;", index));
    collective_of_[id].push_back(index);
    collectives_.push_back(std::move(c));
  }
}

void ProgramEmitter::emit_finish(OpId id, OpId start, const char* call) {
  if (s_.graph[start].as<CollectiveKernel>()->blocking) return;
  note({id}, call);
  for (std::size_t index : collective_of_.at(start))
    step_.push_back(fmt::format("if (!{}({})) return false;", call, index));
}

// Copies the contents of a buffer into another one of the same sizes, as a loop.
void ProgramEmitter::emit_copy(BufferId from, BufferId to, const std::string& why, bool own_node) {
  Graph& graph = s_.graph;
  Operation copy = copy_loop(graph, from, to);
  copy.origins = {why};
  copy.outputs = {graph.add_mutation(to, graph[to].name + ".copied")};
  const OpId op = graph.add_op(std::move(copy));
  if (own_node) begin_node(graph[op].name, op);
  emit_loops({op});
}

}  // namespace braid::codegen::cpp
