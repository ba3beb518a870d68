// Programs with one fault each inside of their memory, planted in the source or in the plan.
#include "tests/codegen_cuda/plan_fault_cases.h"

namespace braid::test {
namespace {

using ir::DType;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;

// h = x w; n = -h; p = |n|, in the bytes of n; s = p + h, in those of h; y = s v.
ir::Schedule chain() {
  Net net;
  const ir::Expr rows = net.graph.add_dim("rows", {1, 6});
  TensorBox x = net.input("x", DType::f32, {rows, 8});
  const auto step = [&](const char* name, const auto& make) {
    net.lowering.set_origin(name);
    return net.lowering.realize(make());
  };
  const auto constant = [&](const char* name) { return net.constant(name, DType::f32, {8, 8}, 1); };
  TensorBox h = step("/h", [&] { return net.lowering.matmul(x, constant("w")); });
  TensorBox n = step("/n", [&] { return net.unary(OpCode::neg, h); });
  TensorBox p = step("/p", [&] { return net.unary(OpCode::abs, n); });
  TensorBox s = step("/s", [&] { return net.binary(OpCode::add, p, h); });
  net.lowering.set_origin("/y");
  net.lowering.output("y", net.lowering.matmul(s, constant("v")));
  return net.finish();
}

// m = -x and |x| side by side; y = m m^T of each matrix.
ir::Schedule columns() {
  Net net;
  TensorBox x = net.input("x", DType::f32, {4, 3, 8});
  net.lowering.set_origin("/m");
  TensorBox m =
      net.lowering.realize(net.lowering.concat({net.unary(OpCode::neg, x), net.unary(OpCode::abs, x)}, 2));
  TensorBox v = net.lowering.realize(net.unary(OpCode::sign, net.input("z", DType::f32, {4, 16, 5})));
  net.lowering.set_origin("/y");
  net.lowering.output("y", net.lowering.matmul(m, v));
  net.lowering.set_origin("/last");
  net.lowering.output("last", net.unary(OpCode::sign, net.unary(OpCode::neg, v)));
  return net.finish();
}

// h = -x; r = all_reduce(h); y = r + h.
ir::Schedule wire(ir::Algorithm algorithm) {
  Net net;
  net.graph.ranks = 2;
  const ir::GroupId world = net.graph.add_group("world", {0, 1});
  const ir::Expr rows = net.graph.add_dim("rows", {1, 6});
  TensorBox x = net.input("x", DType::f32, {rows, 8});
  net.lowering.set_origin("/h");
  TensorBox h = net.lowering.realize(net.unary(OpCode::neg, x));
  net.lowering.set_origin("/r");
  TensorBox r = net.lowering.all_reduce(h, world, ReduceKind::sum);
  net.lowering.set_origin("/y");
  net.lowering.output("y", net.binary(OpCode::add, r, h));
  ir::Schedule s = net.finish();
  for (const ir::ScheduleNode& node : s.nodes) {
    if (auto* k = s.graph[node.op].as<ir::CollectiveKernel>()) k->algorithm = algorithm;
  }
  return s;
}
ir::Schedule wire_nccl() { return wire(ir::Algorithm::library); }
ir::Schedule wire_peers() { return wire(ir::Algorithm::one_shot); }

ir::Placement& placement(ir::Schedule& s, const char* name) {
  for (auto& [storage, place] : s.plan->placements) {
    if (s.graph[storage].name == name) return place;
  }
  throw std::runtime_error(std::string("no storage ") + name);
}

ir::Schedule overlapping() {
  ir::Schedule s = chain();
  placement(s, "/n").offset = placement(s, "/h").offset;
  return s;
}

ir::Schedule too_small() {
  ir::Schedule s = chain();
  placement(s, "/h").bytes = 64;
  return s;
}

}  // namespace

const std::vector<PlanFaultCase>& plan_fault_cases() {
  static const std::vector<PlanFaultCase> all = {
      {"output_shifted",
       chain,
       {{"neg_kernel, grid", "slot_n)", "slot_n + 16)"}},
       {"undeclared access: neg_kernel [/n]", "step 1", "right behind '/n'"}},
      {"input_shifted",
       chain,
       {{"neg_kernel, grid", "slot_h)", "slot_h + 16)"}},
       {"undeclared access: neg_kernel [/n]", "step 1", "reads", "right behind '/h'"}},
      {"bound_too_large",
       chain,
       {{"neg_kernel, grid", "dim_rows)", "dim_rows + 1)"}},
       {"undeclared access: neg_kernel [/n]", "writes bytes [320, 352) of the arena", "right behind '/n'"}},
      {"bound_too_small",
       chain,
       {{"neg_kernel, grid", "dim_rows)", "dim_rows - 1)"}},
       {"uninitialized read: abs_kernel [/p]", "step 2", "bytes [96, 128) of '/n'", "birth at step 1"}},
      {"bound_too_small_in_place",
       chain,
       {{"abs_kernel, grid", "dim_rows)", "dim_rows - 1)"}},
       {"uninitialized read: add_kernel [/s]", "step 3", "bytes [96, 128) of '/p'", "birth at step 2"}},
      {"index_off_by_one",
       chain,
       {{"void abs_kernel", "in0 + i0", "in0 + (i0 + 4)"}},
       {"undeclared access: abs_kernel [/p]", "step 2", "reads", "right behind '/n'"}},
      {"launch_missing",
       chain,
       {{"at_node(\"/n\")", "count > 0", "count < 0"}},
       {"uninitialized read: abs_kernel [/p]", "bytes [0, 128) of '/n'", "birth at step 1"}},
      {"wrong_slot",
       chain,
       {{"abs_kernel, grid", "slot_n)", "slot_h)"}},
       {"undeclared access: abs_kernel [/p]", "'/h' is there: it lives in steps 0 to 3"}},
      {"dead_buffer",
       chain,
       {{"at_node(\"/y\")", "at<float>(arena_, slot_s)", "at<float>(arena_, slot_p)"}},
       {"undeclared access: Gemm [/y]", "step 4", "'/p' is there, but dead: it lives in steps 2 to 3"}},
      {"weight_written",
       chain,
       {{"neg_kernel, grid", "at<float>(arena_, slot_n)", "at<float>(weights_, slot_w)"}},
       {"undeclared access: neg_kernel [/n]", "writes", "of the weights", "constant 'w' is there"}},
      {"input_written",
       chain,
       {{"neg_kernel, grid", "at<float>(arena_, slot_n)", "at<float>(inputs_[0], 0)"}},
       {"undeclared access: neg_kernel [/n]", "writes bytes [0, 128) of input 'x'"}},
      {"leading_dimension_of_b",
       chain,
       {{"products[0] = ", ".ldb = 8", ".ldb = 9"}},
       {"undeclared access: Gemm [/h]", "operand B runs 28 bytes past 'w'", "leading dimension 9"}},
      {"leading_dimension_of_d",
       chain,
       {{"products[0] = ", ".ldd = 8", ".ldd = 9"}},
       {"undeclared access: Gemm [/h]", "operand D runs 12 bytes past '/h'", "leading dimension 9"}},
      {"product_misaligned",
       chain,
       {{"at_node(\"/y\")", "at<float>(arena_, slot_s)", "at<float>(arena_, slot_s + 2)"}},
       {"Gemm [/y]", "operand A is misaligned", "promises 16 bytes"}},
      {"product_without_bytes_of_its_own",
       chain,
       {{"at_node(\"/y\")", "at<float>(weights_, slot_v)", "at<float>(weights_, slot_v - 16)"}},
       {"undeclared access: Gemm [/y]", "reads", "constant 'w' is there"}},
      {"batch_stride",
       columns,
       {{"products[0] = ", "{4, 48, 80, 15}", "{4, 48, 81, 15}"}},
       {"undeclared access: Gemm [/y]", "operand B runs 12 bytes past '/m.1'", "batch stride 81"}},
      {"column_of_a_neighbour",
       columns,
       {{"neg_kernel, grid", "slot_m)", "slot_m + 16)"}},
       {"undeclared access: neg_kernel [/m]", "it writes other bytes of '/m'"}},
      {"collective_too_long",
       wire_nccl,
       {{"ncclAllReduce(", "(8 * dim_rows)", "(8 * dim_rows + 1)"}},
       {"undeclared access: ncclAllReduce [/r]", "of the segment", "right behind"}},
      {"collective_shifted",
       wire_nccl,
       {{"ncclAllReduce(", "slot_h)", "slot_h + 16)"}},
       {"undeclared access: ncclAllReduce [/r]", "reads", "right behind"}},
      {"collective_in_the_wrong_place",
       wire_nccl,
       {{"ncclAllReduce(", "slot_r)", "slot_h)"}},
       {"undeclared access: ncclAllReduce [/r]", "writes", "it only reads"}},
      {"peers_too_long",
       wire_peers,
       {{"one_shot_all_reduce", "count))", "count + 1))"}},
       {"undeclared access: (one_shot_all_reduce<Sum, float>) [/r]", "reads", "of the segment of rank 1",
        "right behind"}},
      {"peers_shifted",
       wire_peers,
       {{"one_shot_all_reduce", "slot_h,", "slot_h + 4,"}},
       {"undeclared access: (one_shot_all_reduce<Sum, float>) [/r]", "reads", "of the segment of rank 0",
        "right behind"}},
      {"early_death",
       chain,
       {{"kBuffers[]", ", 0, 3}", ", 0, 2}"}},
       {"memory plan: step 3 [/s] declares '/h', which only lives in steps 0 to 2"}},
      {"tenants_overlap",
       overlapping,
       {},
       {"memory plan: step 1 [/n]: '/n' is born in bytes [0, 192) of '/h', which lives in steps 0 to 3"}},
      {"too_few_bytes",
       too_small,
       {},
       {"memory plan: step 0 [/h] declares bytes [0, 128) of '/h'", "64 bytes"}},
  };
  return all;
}

void add_plan_fault_cases(std::vector<Case>& out) {
  out.push_back({"chain", chain, {}, "plan_faults"});
  out.push_back({"columns", columns, {}, "plan_faults"});
  out.push_back({"wire", wire_nccl, {}, "plan_faults"});
  out.push_back({"wire_peers", wire_peers, {}, "plan_faults"});
  out.push_back(
      {"columns_too_many", columns, {}, "plan_faults", {{"void neg_sign_kernel", "i0 < 320", "i0 < 321"}}});
  for (const PlanFaultCase& c : plan_fault_cases()) {
    out.push_back({"fault_" + c.name, c.build, {}, "plan_faults", c.edits});
    out.back().faulty = true;
  }
}

}  // namespace braid::test
