#include "tests/codegen_cuda/cases.h"

#include <cstring>
#include <stdexcept>

#include "codegen/cuda/target.h"
#include "passes/plan_memory.h"

namespace braid::test {

using ir::BodyBuilder;
using ir::OpCode;
using ir::TensorBox;
using ir::ValueId;

std::vector<Case> cases() {
  std::vector<Case> out;
  add_elementwise_cases(out);
  add_arithmetic_cases(out);
  add_reduction_cases(out);
  add_gemm_cases(out);
  add_collective_cases(out);
  add_random_cases(out);
  add_form_cases(out);
  add_peer_cases(out);
  add_extern_cases(out);
  add_recurrence_cases(out);
  add_attention_cases(out);
  add_tile_product_cases(out);
  add_lost_peer_cases(out);
  add_plan_fault_cases(out);
  add_size_cases(out);
  for (Case& c : out) {
    c.build = [as_written = c.build, limits = codegen::cuda::kernel_limits(c.options)] {
      ir::Schedule schedule = as_written();
      if (codegen::legalise(schedule, limits)) passes::PlanMemory().run(schedule);
      return schedule;
    };
  }
  return out;
}

codegen::cuda::CudaProgram emitted(const Case& c) {
  codegen::cuda::CudaOptions options = c.options;
  options.name = c.name;
  codegen::cuda::CudaProgram program = codegen::cuda::emit_cuda(c.build(), options);
  for (const Edit& edit : c.edits) {
    const std::size_t after = program.body.find(edit.after);
    const std::size_t at = after == std::string::npos ? after : program.body.find(edit.from, after);
    if (at == std::string::npos)
      throw std::runtime_error("'" + edit.from + "' is not behind '" + edit.after + "' in\n" + program.body);
    program.body.replace(at, edit.from.size(), edit.to);
  }
  return program;
}

Case find_case(const std::string& name) {
  static const std::vector<Case> all = cases();
  for (const Case& c : all) {
    if (c.name == name) return c;
  }
  throw std::runtime_error("no case '" + name + "'");
}

ir::Schedule planned(ir::Graph graph, const std::vector<ir::OpId>& order,
                     const std::vector<std::vector<ir::OpId>>& fused) {
  ir::Schedule s;
  s.graph = std::move(graph);
  for (ir::OpId op : order) {
    const std::vector<ir::OpId>* node = nullptr;
    for (const auto& f : fused) {
      for (ir::OpId member : f) node = member == op ? &f : node;
    }
    if (node == nullptr) {
      s.nodes.push_back(ir::ScheduleNode::single(op));
    } else if (node->back() == op) {  // where the last member stands
      ir::ScheduleNode n;
      n.kind = ir::ScheduleNode::Kind::fused;
      n.name = "fused_" + s.graph[op].name;
      for (ir::OpId member : *node) n.members.push_back(ir::ScheduleNode::single(member));
      s.nodes.push_back(std::move(n));
    }
  }
  passes::PlanMemory().run(s);
  return s;
}

TensorBox Net::unary(OpCode code, TensorBox x) {
  return lowering.pointwise({x},
                            [&](BodyBuilder& b, std::span<const ValueId> v) { return b.unary(code, v[0]); });
}
TensorBox Net::binary(OpCode code, TensorBox x, TensorBox y) {
  return lowering.pointwise(
      {x, y}, [&](BodyBuilder& b, std::span<const ValueId> v) { return b.binary(code, v[0], v[1]); });
}

TensorBox Net::constant(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes, int seed) {
  std::int64_t n = ir::size_of(dtype);
  for (std::int64_t s : sizes) n *= s;
  std::vector<float> values(static_cast<std::size_t>(n / 4));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 3) % 9) - 4.0f;
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return lowering.constant(name, dtype, sizes, ir::own_bytes(std::move(bytes)));
}

ir::Schedule Net::finish(const std::vector<std::vector<ir::OpId>>& fused) {
  const std::vector<ir::OpId> order = lowering.order();
  return planned(std::move(graph), order, fused);
}

ir::Schedule Net::finish_fused() {
  const std::vector<ir::OpId> order = lowering.order();
  return planned(std::move(graph), order, {order});
}

}  // namespace braid::test
