// split_collectives and the splitting beneath it.
#include "passes/overlap/splitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/memory_model.h"
#include "ir/interpreter.h"
#include "ir/verifier.h"
#include "tests/passes/text_pass.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"
#include "tests/support/schedule_changes.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using passes::PassContext;

const std::string kHead = R"(graph main
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

TEST(SplitCollectives, CutsAnAllReduceIntoPiecesOfItsResult) {
  expect_passes("split_collectives{chunks=2}", kHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a
release a
%c: f32[64] = extern "work" reads(%a.1) cost(ns 1000)

output %c
)",
                kHead + R"(buffer %a: f32[1024]
%a.part0: f32[512] in %a = all_reduce sum @g (%x [512]) as a
%a.part1: f32[512] in %a at 512 = all_reduce sum @g (%x at 512 [512])
%a.part0.1 mutates %a.part0 = wait a as a.1
%a.part1.1 mutates %a.part1 = wait a.part1
release a
release a.part1
%c: f32[64] = extern "work" reads(%a) cost(ns 1000)

output %c
)");
}

TEST(SplitCollectives, InPlaceWhatWasThereBeforeBecomesAPieceToo) {
  expect_passes("split_collectives{max_bytes=2048}", kHead + R"(%a: f32[1024] = pointwise {
  %0 = load %x
  store %0
}
%s mutates %a = all_reduce sum @g (%a)
%s.1 mutates %s = wait s

output %s.1
)",
                kHead + R"(buffer %a.all: f32[1024]
%a: f32[1024] in %a.all = pointwise {
  %0 = load %x
  store %0
}
%s.part0: f32[512] in %a.all = all_reduce sum @g (%a [512]) as s
%s.part1: f32[512] in %a.all at 512 = all_reduce sum @g (%a at 512 [512])
%s.part0.1 mutates %s.part0 = wait s as s.1
%s.part1.1 mutates %s.part1 = wait s.part1

output %a.all as s.1
)");
}

TEST(SplitCollectives, IsTheInverseOfMerging) {
  const std::string text = kHead + R"(%a: f32[2048] = all_gather @g (%x)
%b: bf16[1024] = all_gather @g (%y)
%c: f32[2048] = all_gather @g (%x)
%a.1 mutates %a = wait a
%b.1 mutates %b = wait b
%c.1 mutates %c = wait c
release a
release b
release c
%e: f32[64] = extern "work" reads(%a.1, %b.1, %c.1) cost(ns 1000)

output %e
)";
  const std::string merged = after_passes("bucket_collectives", text);
  EXPECT_THAT(merged, testing::HasSubstr("= all_gather @g (%x, %y, %x)"));
  EXPECT_EQ(after_passes("split_collectives{max_bytes=8192}", merged), text);
  // Two buckets of two.
  EXPECT_THAT(after_passes("split_collectives{max_bytes=10240}", merged),
              testing::HasSubstr("%a: f32[2048], %b: bf16[1024] = all_gather @g (%x, %y)"));
}

TEST(SplitCollectives, CutsBetweenAndWithinTheOperandsOfABucket) {
  const std::string text = kHead + R"(%a: f32[1024], %b: bf16[512] = all_reduce sum @g (%x, %y)
%a.1 mutates %a, %b.1 mutates %b = wait a
%e: f32[64] = extern "work" reads(%a.1, %b.1) cost(ns 1000)

output %e
)";
  // 4096 and 1024 bytes.
  const std::string three = after_passes("split_collectives{max_bytes=2048}", text);
  EXPECT_THAT(three, testing::HasSubstr("%b: bf16[512] = all_reduce sum @g (%y)"));
  EXPECT_THAT(three, testing::HasSubstr("(%x at 512 [512])"));
  const std::string two = after_passes("split_collectives{chunks=2}", text);
  EXPECT_THAT(two, testing::HasSubstr("%a.part1: f32[512] in %a at 512, %b: bf16[512] = all_reduce"));
}

TEST(SplitCollectives, PiecesBeginAtAddressesOf256BytesAndCoverEverything) {
  const std::string text =
      after_passes("split_collectives{chunks=3}", kHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a

output %a.1
)");
  EXPECT_THAT(text, testing::HasSubstr("(%x [320])"));
  EXPECT_THAT(text, testing::HasSubstr("(%x at 320 [320])"));
  EXPECT_THAT(text, testing::HasSubstr("(%x at 640 [384])"));
}

TEST(SplitCollectives, DynamicSizesAreCutAlongTheirConstantPart) {
  expect_passes("split_collectives{chunks=2}", R"(graph main
dim n in [1, 64]
ranks 2
group @g = [0, 1]

input %x: f32[n, 64]

%a: f32[n, 64] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a

output %a.1
)",
                R"(graph main
dim n in [1, 64]
ranks 2
group @g = [0, 1]

input %x: f32[n, 64]

buffer %a: f32[n, 64]
%a.part0: f32[32*n] in %a = all_reduce sum @g (%x [32*n]) as a
%a.part1: f32[32*n] in %a at 32*n = all_reduce sum @g (%x at 32*n [32*n])
%a.part0.1 mutates %a.part0 = wait a as a.1
%a.part1.1 mutates %a.part1 = wait a.part1

output %a as a.1
)");
}

TEST(SplitCollectives, WhoReadsOnePieceWaitsForThatPieceAlone) {
  ir::Schedule schedule = ir::parse_schedule(kHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
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
  const std::string text = kHead + R"(%a: f32[2048] = all_gather @g (%x)
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
  expect_unchanged("split_collectives{chunks=2}", ir::print(ir::parse_schedule(text, "test")));
  EXPECT_THAT(reasons("split_collectives{chunks=2}", text),
              testing::ElementsAre(
                  "a: all_gather: a piece of every rank's slab is not contiguous",
                  "r: reduce_scatter: a piece of every rank's slab is not contiguous",
                  "t: all_to_all: a piece of every rank's slab is not contiguous",
                  "b: blocking: nothing is gained", "c: its cost is given and says nothing about parts",
                  "u: a part of its result is overwritten", "p: send: the peer would have to split as well"));
}

TEST(SplitCollectives, LeavesWholeWhatLiesInMemoryOfTheCallerOrIsReducedAgain) {
  const std::string text = kHead + R"(%s mutates %x = all_reduce sum @g (%x)
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

TEST(SplitCollectives, LeavesWholeWhatIsSmallOrInAGroup) {
  const std::string text = kHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
%a.1 mutates %a = wait a

output %a.1
)";
  expect_unchanged("split_collectives{max_bytes=4096}", text);
  expect_unchanged("split_collectives{chunks=2,min_bytes=4097}", text);
  const std::string grouped = kHead + R"(grouped both {
  %a: f32[1024] = all_reduce sum @g (%x)
  %a.1 mutates %a = wait a
}

output %a.1
)";
  EXPECT_THAT(reasons("split_collectives{chunks=2}", grouped),
              testing::ElementsAre("a: it is part of a group"));
}

TEST(SplitCollectives, KeepsTheCap) {
  const std::string text = kHead + R"(%a: f32[1024] = all_reduce sum @g (%x)
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

TEST(SplitCollectives, WithoutCollectivesNothingChanges) {
  expect_unchanged("split_collectives{chunks=2}", R"(graph main

input %x: f32[4]

%y: f32[4] = pointwise {
  %0 = load %x
  store %0
}

output %y
)");
}

TEST(SplitCollectives, AsksForOneOfNumberAndSize) {
  const std::string text = kHead + "%c: f32[64] = extern \"work\" reads(%x)\n\noutput %c\n";
  EXPECT_THAT(error_of([&] { after_passes("split_collectives", text); }), testing::HasSubstr("BR0571"));
  EXPECT_THAT(error_of([&] { after_passes("split_collectives{chunks=2,max_bytes=8}", text); }),
              testing::HasSubstr("BR0571"));
  EXPECT_THAT(error_of([&] { after_passes("split_collectives{chunks=1}", text); }),
              testing::HasSubstr("BR0572"));
  EXPECT_THAT(error_of([&] { after_passes("split_collectives{chunks=2000}", text); }),
              testing::HasSubstr("BR0572"));
  EXPECT_THAT(error_of([&] { after_passes("split_collectives{max_bytes=-1}", text); }),
              testing::HasSubstr("BR0572"));
}

// Pieces are views of one storage that are written one by one: one birth and one death.
TEST(SplitCollectives, TakeNoMoreMemoryThanTheWhole) {
  const std::string text = kHead + R"(%a: f32[1024] = pointwise {
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
