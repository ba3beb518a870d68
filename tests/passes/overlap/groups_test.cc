// group_nodes, group_fsdp_collectives, ungroup, and `after` in IR text.
#include "passes/overlap/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/build_problem.h"
#include "tests/support/orders.h"
#include "tests/support/random_graph.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using passes::group_nodes;
using passes::Grouping;

std::string copy(std::string_view name, std::string_view from, int size) {
  return fmt::format("%{}: f32[{}] = pointwise {{\n  %0 = load %{}\n  store %0\n}}\n", name, size, from);
}
const std::string kChain = graph(
    compute("a", "%x") + compute("b", "%a") + compute("c", "%b") + compute("d", "%x") + compute("e", "%x"),
    "output %c\noutput %d\noutput %e\n");

std::vector<analysis::NodeId> nodes(std::initializer_list<int> numbers) { return order_of(numbers); }

TEST(GroupNodes, StandWhereTheLastMemberStood) {
  ir::Schedule s = ir::parse_schedule(kChain, "test");
  group_nodes(s, {{"g", nodes({0, 3}), {}}});
  EXPECT_EQ(shape(s), "g{a d} b c e");
  EXPECT_TRUE(passes::unpack_groups(s));
  EXPECT_EQ(shape(s), "a d b c e");
  EXPECT_FALSE(passes::unpack_groups(s));
}

TEST(GroupNodes, AGroupThatAPathLeavesAndEntersAgainIsNotMade) {
  ir::Schedule s = ir::parse_schedule(kChain, "test");
  const Grouping made = group_nodes(s, {{"g", nodes({0, 2}), {}}, {"h", nodes({3, 4}), {}}});
  EXPECT_THAT(made.names, testing::ElementsAre("", "h"));
  EXPECT_EQ(shape(s), "a b c h{d e}");
}

TEST(GroupNodes, AnOrderThatWouldCloseACycleIsDroppedAndSaid) {
  ir::Schedule s = ir::parse_schedule(kChain, "test");
  const Grouping made =
      group_nodes(s, {{"g", nodes({0}), {1}}, {"h", nodes({1}), {}}, {"k", nodes({3}), {0}}});
  EXPECT_THAT(made.dropped, testing::ElementsAre(testing::Pair(0, 1)));
  EXPECT_EQ(shape(s), "g{a} h{b} c k>g{d} e");
}

TEST(GroupNodes, TemporaryGroupsGoWithoutFusion) {
  ir::Schedule s = ir::parse_schedule(kChain, "test");
  {
    const passes::TemporaryGroups groups(s, {{"g", nodes({3, 4}), {}}});
    EXPECT_EQ(shape(s), "a b c g{d e}");
  }
  EXPECT_EQ(shape(s), "a b c d e");
}

std::string two_layers() {
  std::string body;
  for (const char* k : {"g", "h"}) {
    body += copy(fmt::format("{}_cast", k), "w", 64) + all_gather(k, fmt::format("{}_cast", k));
  }
  body += wait("g") + copy("g_out", "g.1", 128) + compute("mm1", "%x, %g_out") + wait("h") +
          copy("h_out", "h.1", 128) + compute("mm2", "%mm1, %h_out");
  return graph(body, "output %mm2\n");
}

TEST(GroupFsdp, SaysWhatKeepsEachGatherFromGoingFurther) {
  ir::Schedule schedule = ir::parse_schedule(two_layers(), "test");
  passes::PassContext context;
  const auto collectives = report_after("group_fsdp_collectives", schedule, context).collectives;
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_EQ(to_string(collectives[0].limit), "data dependency on 'g_cast'") << "grouped or not";
  EXPECT_EQ(collectives[1].final_exposed.ps, 0);
  EXPECT_EQ(to_string(collectives[1].limit), "cost: would not be faster") << "hidden behind mm1";
}

TEST(After, IsPrintedAndReadAgain) {
  ir::Schedule s = ir::parse_schedule(two_layers(), "test");
  passes::run_passes(s, passes::parse_pass_list("group_fsdp_collectives"), {});
  const std::string text = ir::print(s);
  EXPECT_THAT(text, testing::HasSubstr("grouped h_gather after g_gather_wait {"));
  EXPECT_EQ(ir::print(ir::parse_schedule(text, "test")), text);
}

TEST(After, NamesAGroupThatStandsEarlier) {
  const std::string text = graph("grouped t after u {\n" + compute("a", "%x") + "}\n", "output %a\n");
  EXPECT_THAT(error_of([&] { ir::parse_schedule(text, "test"); }), testing::HasSubstr("BR0503"));
}

TEST(After, TheVerifierHoldsTheOrderToIt) {
  ir::Schedule s = ir::parse_schedule(kChain, "test");
  group_nodes(s, {{"g", nodes({3}), {}}, {"h", nodes({4}), {0}}});
  ASSERT_EQ(shape(s), "a b c g{d} h>g{e}");
  std::swap(s.nodes[3], s.nodes[4]);
  EXPECT_FALSE(ir::verify(s).empty());
}

TEST(Groups, RandomProgramsMeanTheSameWithAnyPassBetweenGroupingAndUngrouping) {
  const std::vector<std::string> between = {
      "schedule_for_comm", "sink_waits_iterative{budget=1}", "dead_code",  "reorder_for_peak_memory",
      "simple_overlap",    "braid_schedule{budget=10}",      "raise_comms"};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const RandomProgram program = random_program(seed, 12);
    const std::string list = fmt::format("group_fsdp_collectives{{depth={}}},{},{}plan_memory", 1 + seed % 2,
                                         between[seed % between.size()], seed % 3 == 0 ? "" : "ungroup,");
    const ir::InterpreterResult before = ir::run(program.schedule, program.inputs, {.order_seed = seed});
    ir::Schedule schedule = program.schedule;
    passes::run_passes(schedule, passes::parse_pass_list(list), {.check_unchanged = true});
    const ir::InterpreterResult after =
        ir::run(schedule, program.inputs, {.use_plan = true, .order_seed = seed + 1});
    EXPECT_EQ(before.outputs, after.outputs) << "seed " << seed << ", " << list;
  }
}

}  // namespace
}  // namespace braid::test
