#include "charge_callee.h"

#include <gtest/gtest.h>
#include <passes/runner.h>

namespace {

using braid::ir::BufferId;
using braid::ir::Schedule;

// y = callee(x)
Schedule call(const std::string& callee) {
  Schedule schedule;
  braid::ir::Graph& graph = schedule.graph;
  const BufferId x = graph.add_owned("x", braid::ir::DType::f32, {4}, braid::ir::StorageKind::input);
  const BufferId y = graph.add_owned("y", braid::ir::DType::f32, {4}, braid::ir::StorageKind::output);
  graph.inputs.push_back({"x", x});
  graph.outputs.push_back({"y", y});
  braid::ir::ExternKernel kernel{.callee = callee, .reads = {whole(graph, x)}, .writes = {whole(graph, y)}};
  const braid::ir::OpId op = graph.add_op({.name = "call", .kernel = kernel, .outputs = {y}});
  schedule.nodes.push_back(braid::ir::ScheduleNode::single(op));
  return schedule;
}

TEST(ChargeCallee, ChargesTheCallsOfItsFunction) {
  Schedule schedule = call("attention");
  EXPECT_TRUE((example::ChargeCallee{.callee = "attention", .ns = 5000}).run(schedule));
  EXPECT_EQ(schedule.graph.ops[0].cost->ns, 5000);
}

TEST(ChargeCallee, LeavesOtherCallsAlone) {
  Schedule schedule = call("sort");
  EXPECT_FALSE((example::ChargeCallee{.callee = "attention", .ns = 5000}).run(schedule));
  EXPECT_FALSE(schedule.graph.ops[0].cost.has_value());
}

TEST(ChargeCallee, SaysUnchangedTheSecondTime) {
  Schedule schedule = call("attention");
  example::ChargeCallee pass{.callee = "attention", .ns = 5000};
  pass.run(schedule);
  EXPECT_FALSE(pass.run(schedule));
}

TEST(ChargeCallee, RunsByNameOnceThePluginIsLoaded) {
  ASSERT_FALSE(braid::passes::pass_registry().contains("charge_callee"));
  braid::passes::load_plugin(CHARGE_CALLEE_PATH);
  Schedule schedule = call("attention");
  braid::passes::run_passes(schedule,
                            braid::passes::parse_pass_list("charge_callee{callee=attention,ns=5000}"));
  EXPECT_EQ(schedule.graph.ops[0].cost->ns, 5000);
}

}  // namespace
