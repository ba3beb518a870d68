// split_collectives and the splitting beneath it.
#include "passes/overlap/splitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/memory_model.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_changes.h"

namespace braid::test {
namespace {

using passes::PassContext;

const std::string kSplitHead = R"(graph main
ranks 2
group @g = [0, 1]

input %x: f32[1024]
input %y: bf16[512]

)";

// Why each collective stayed whole: "name: reason", in order.
std::vector<std::string> reasons(const std::string& pass, const std::string& text) {
  PassContext context;
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  passes::RunOptions options;
  options.context = &context;
  passes::run_passes(schedule, passes::parse_pass_list(pass), options);
  EXPECT_EQ(context.reports.size(), 1u);
  std::vector<std::string> out;
  for (const analysis::CollectiveReport& c : context.reports.at(0).collectives) {
    if (c.limit.reason != analysis::LimitReason::none) out.push_back(c.name + ": " + to_string(c.limit));
  }
  return out;
}

TEST(SplitCollectives, WhoReadsOnePieceWaitsForThatPieceAlone) {
  ir::Schedule schedule = ir::parse_schedule(kSplitHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a
%c: f32[64] = extern "first" reads(%a.1 [512]) cost(ns 1000)
%d: f32[64] = extern "all" reads(%a.1) cost(ns 1000)

output %c
output %d
)",
                                             "test");
  passes::run_passes(schedule, passes::parse_pass_list("split_collectives{chunks=2}"));
  const ir::Dependencies deps = ir::find_dependencies(schedule);
  const auto waits_before = [&](int node) {
    int n = 0;
    for (const ir::Dependency& d : deps.predecessors(node)) {
      const auto op = ir::at(schedule.nodes, d.node).op;
      n += schedule.graph[op].as<ir::WaitKernel>() != nullptr ? 1 : 0;
    }
    return n;
  };
  EXPECT_EQ(ir::name_of(schedule, 4), "c");
  EXPECT_EQ(waits_before(4), 1);
  EXPECT_EQ(waits_before(5), 2);
}

TEST(SplitCollectives, LeavesWholeWhatCannotBeCutAndSaysWhy) {
  const std::string text = kSplitHead + R"(%a: f32[2048] = all_gather @g (%x)
%a.1 mutates %a = wait a
%r: f32[1024] = reduce_scatter sum @g (%a.1)
%r.1 mutates %r = wait r
%t: f32[1024] = all_to_all @g (%x)
%t.1 mutates %t = wait t
%b: f32[1024] = all_reduce sum @g (%x) blocking
%c: f32[1024] = all_reduce sum @g (%x) cost(ns 5000)
%c.1 mutates %c = wait c
%u: f32[1024] = all_reduce sum @g (%x)
%u.1 mutates %u = wait u
%v: f32[8] in %u.1 at 4 = extern "overwrite" cost(ns 10)
send @g (%x) peer 1 as p
wait p
%e: f32[64] = extern "work" reads(%r.1, %t.1, %b, %c.1, %v) cost(ns 1000)

output %e
)";
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  const auto records = passes::run_passes(schedule, passes::parse_pass_list("split_collectives{chunks=2}"),
                                          {.check_unchanged = true});
  EXPECT_EQ(records[0].outcome, passes::PassRecord::Outcome::unchanged);
  EXPECT_THAT(reasons("split_collectives{chunks=2}", text),
              testing::ElementsAre(
                  "a: all_gather: a piece of every rank's slab is not contiguous",
                  "r: reduce_scatter: a piece of every rank's slab is not contiguous",
                  "t: all_to_all: a piece of every rank's slab is not contiguous",
                  "b: blocking: nothing is gained", "c: its cost is given and says nothing about parts",
                  "u: a part of its result is overwritten", "p: send: the peer would have to split as well"));
}

TEST(SplitCollectives, LeavesWholeWhatLiesInMemoryOfTheCallerOrIsReducedAgain) {
  const std::string text = kSplitHead + R"(%s mutates %x = all_reduce sum @g (%x)
%s.1 mutates %s = wait s
%a: f32[512] = all_reduce sum @g (%s.1 [512])
%a.1 mutates %a = wait a
%b mutates %a.1 = all_reduce sum @g (%a.1)
%b.1 mutates %b = wait b

output %b.1
)";
  EXPECT_THAT(reasons("split_collectives{chunks=2}", text),
              testing::ElementsAre("s: its result lies in memory of the caller",
                                   "b: another collective has worked on its memory"));
}

TEST(SplitCollectives, LeavesWholeWhatIsInAGroup) {
  const std::string grouped = kSplitHead + R"(grouped both {
  %a: f32[1024] = all_reduce sum @g (%x)
  %a.1 mutates %a = wait a
}

output %a.1
)";
  EXPECT_THAT(reasons("split_collectives{chunks=2}", grouped),
              testing::ElementsAre("a: it is part of a group"));
}

TEST(SplitCollectives, KeepsTheCap) {
  const std::string text = kSplitHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a
%e: f32[1024] = pointwise {
  %0 = load %a.1
  store %0
}

output %e
)";
  for (const std::int64_t cap : {1000, 1'000'000}) {
    PassContext context;
    context.memory_cap = cap;
    ir::Schedule schedule = ir::parse_schedule(text, "test");
    passes::RunOptions options;
    options.context = &context;
    passes::run_passes(schedule, passes::parse_pass_list("split_collectives{chunks=2}"), options);
    EXPECT_EQ(schedule.nodes.size(), cap == 1000 ? 3u : 5u);
    EXPECT_EQ(context.reports.at(0).collectives.at(0).limit.reason,
              cap == 1000 ? analysis::LimitReason::memory : analysis::LimitReason::none);
  }
}

// Pieces are views of one storage that are written one by one: one birth and one death.
TEST(SplitCollectives, TakeNoMoreMemoryThanTheWhole) {
  const std::string text = kSplitHead + R"(%a: f32[1024] = pointwise {
  %0 = load %x
  store %0
}
%s mutates %a = all_reduce sum @g (%a)
%s.1 mutates %s = wait s
%r: f32[1024] = all_reduce sum @g (%s.1)
%r.1 mutates %r = wait r
%e: f32[64] = extern "work" reads(%r.1, %s.1) cost(ns 1000)

output %e
)";
  ir::Schedule whole = ir::parse_schedule(text, "test"), parts = whole;
  passes::run_passes(parts, passes::parse_pass_list("split_collectives{chunks=4}"));
  ASSERT_GT(parts.nodes.size(), whole.nodes.size());
  const analysis::MemoryModel before(whole), after(parts);
  const auto order = [](const ir::Schedule& s) { return analysis::identity_order(analysis::nodes_of(s)); };
  EXPECT_EQ(before.live(order(whole)).peak, after.live(order(parts)).peak);
  EXPECT_EQ(before.planned_bytes(order(whole)), after.planned_bytes(order(parts)));
  EXPECT_EQ(before.tenants().size(), after.tenants().size());
}

TEST(SplitCollectives, RandomProgramsKeepTheirMeaning) {
  int split = 0;
  for (int k = 0; k < random_cases(300); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const RandomProgram program = random_program(seed, 24);
    ir::Schedule schedule = program.schedule;
    const std::string passes = fmt::format("split_collectives{{chunks={}}}", 2 + seed % 3);
    // Twice: pieces can be split once more.
    const auto records = passes::run_passes(schedule, passes::parse_pass_list(passes + "," + passes),
                                            {.check_unchanged = true});
    if (records[0].outcome != passes::PassRecord::Outcome::changed) continue;
    ++split;
    shuffle_nodes(schedule, seed);
    passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
    const auto before = ir::run(program.schedule, program.inputs, {.order_seed = seed});
    const auto after = ir::run(schedule, program.inputs, {.use_plan = true, .order_seed = seed + 1});
    EXPECT_TRUE(before.outputs == after.outputs) << "seed " << seed << "\n" << ir::print(schedule);
  }
  EXPECT_GT(split, random_cases(50));
}

}  // namespace
}  // namespace braid::test
