// Collectives among simulated ranks, and planned memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "tests/support/interpreter_runs.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;

// ---- collectives

std::string start_wait(const std::string& head, int ranks, const std::string& group, const std::string& start,
                       const std::string& sizes) {
  return fmt::format(
      "graph g ranks {} group @g = [{}] input %x: f32[{}] %y: f32[{}] = {} %y.1 mutates %y = wait y output "
      "%y.1",
      ranks, group, head, sizes, start);
}

std::vector<std::vector<Tensor>> rank_inputs(int ranks, std::int64_t n) {
  std::vector<std::vector<Tensor>> out;
  for (int r = 0; r < ranks; ++r) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = static_cast<float>(100 * (r + 1)) + static_cast<float>(i);
    out.push_back({f32({n}, v)});
  }
  return out;
}

// The receive's memory holds nothing that the sender still reads, and the sender may reach its wait much
// later.
TEST(Collectives, ReleaseOfAReceiveNeedsNoWaitOfTheSender) {
  const auto out = run_ranks(
      "graph g ranks 2 group @g = [0, 1] input %x: f32[2] send @g (%x) peer 1 as to "
      "%y: f32[2] = recv @g peer 0 as from %y.1 mutates %y = wait from release from "
      "%z: f32[2] = all_reduce sum @g (%x) blocking wait to release to output %y.1 output %z",
      rank_inputs(2, 2));
  EXPECT_THAT(out[1][0].values<float>(), ElementsAre(100, 101));
  EXPECT_THAT(out[0][1].values<float>(), ElementsAre(300, 302));
}

TEST(Collectives, EveryKindOnOneToFourRanks) {
  for (int p = 1; p <= 4; ++p) {
    std::string group = "0";
    for (int r = 1; r < p; ++r) group += fmt::format(", {}", r);
    const std::int64_t n = 2 * p;  // divisible into slabs
    const auto in = rank_inputs(p, n);
    const auto value = [&](int r, std::int64_t i) {
      return static_cast<float>(100 * (r + 1)) + static_cast<float>(i);
    };
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto sum = run_ranks(
          start_wait(std::to_string(n), p, group, "all_reduce sum @g (%x)", std::to_string(n)), in, seed);
      const auto avg = run_ranks(
          start_wait(std::to_string(n), p, group, "all_reduce avg @g (%x)", std::to_string(n)), in, seed);
      const auto max = run_ranks(
          start_wait(std::to_string(n), p, group, "all_reduce max @g (%x)", std::to_string(n)), in, seed);
      const auto gather = run_ranks(
          start_wait(std::to_string(n), p, group, "all_gather @g (%x)", std::to_string(n * p)), in, seed);
      const auto scatter = run_ranks(
          start_wait(std::to_string(n), p, group, "reduce_scatter sum @g (%x)", std::to_string(n / p)), in,
          seed);
      const auto cast =
          run_ranks(start_wait(std::to_string(n), p, group, fmt::format("broadcast @g (%x) root {}", p - 1),
                               std::to_string(n)),
                    in, seed);
      const auto all = run_ranks(
          start_wait(std::to_string(n), p, group, "all_to_all @g (%x)", std::to_string(n)), in, seed);
      for (int r = 0; r < p; ++r) {
        const auto at = static_cast<std::size_t>(r);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto k = static_cast<std::size_t>(i);
          float total = 0;
          for (int s = 0; s < p; ++s) total += value(s, i);
          EXPECT_EQ(sum[at][0].values<float>()[k], total);
          EXPECT_EQ(avg[at][0].values<float>()[k], total / static_cast<float>(p));
          EXPECT_EQ(max[at][0].values<float>()[k], value(p - 1, i));
          EXPECT_EQ(cast[at][0].values<float>()[k], value(p - 1, i));
          EXPECT_EQ(all[at][0].values<float>()[k], value(static_cast<int>(i / 2), 2 * r + i % 2));
          for (int s = 0; s < p; ++s)
            EXPECT_EQ(gather[at][0].values<float>()[static_cast<std::size_t>(s * n + i)], value(s, i));
        }
        for (std::int64_t i = 0; i < 2; ++i) {
          float total = 0;
          for (int s = 0; s < p; ++s) total += value(s, 2 * r + i);
          EXPECT_EQ(scatter[at][0].values<float>()[static_cast<std::size_t>(i)], total);
        }
      }
    }
  }
}

TEST(Collectives, SubgroupsInTheirOwnOrder) {
  // Rank 3 is the first of the group: its data come first.
  const auto out = run_ranks(start_wait("1", 4, "3, 1", "all_gather @g (%x)", "2"), rank_inputs(4, 1));
  EXPECT_THAT(out[1][0].values<float>(), ElementsAre(400, 200));
  EXPECT_THAT(out[3][0].values<float>(), ElementsAre(400, 200));
  EXPECT_TRUE(std::isnan(out[0][0].values<float>()[0])) << "ranks outside of the group take no part";
}

// Each rank gets what its own part holds, in the order of its part; `root` is a position in it.
TEST(Collectives, PartsKeepToThemselves) {
  const std::string head =
      "graph g ranks 6 mesh [a=3, b=2] group @g = [[4, 1], [0, 3]] group @b = axis b group @a = axis a ";
  const auto in = rank_inputs(6, 1);  // 100, 200, ... 600
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto out = run_ranks(head + R"(input %x: f32[1]
%all: f32[2] = all_gather @g (%x)
%sum: f32[1] = all_reduce sum @b (%x)
%all.1 mutates %all = wait all
%root: f32[1] = broadcast @g (%x) root 1 blocking
%sum.1 mutates %sum = wait sum
%column: f32[3] = all_gather @a (%sum.1) blocking
send @g (%x) peer 1 as to
%got: f32[1] = recv @g peer 0
%got.1 mutates %got = wait got
wait to
output %all.1 output %sum.1 output %root output %column output %got.1)",
                               in, seed);
    const auto values = [&](std::size_t rank, std::size_t k) { return out[rank][k].values<float>(); };
    EXPECT_THAT(values(4, 0), ElementsAre(500, 200));
    EXPECT_THAT(values(1, 0), ElementsAre(500, 200));
    EXPECT_THAT(values(0, 0), ElementsAre(100, 400));
    EXPECT_THAT(values(3, 0), ElementsAre(100, 400));
    for (std::size_t r : {2U, 5U}) EXPECT_TRUE(std::isnan(values(r, 0)[0])) << "in no part";
    for (std::size_t r = 0; r < 6; ++r) {
      EXPECT_THAT(values(r, 1), ElementsAre(r < 2 ? 300 : r < 4 ? 700 : 1100));
      EXPECT_THAT(values(r, 3), ElementsAre(300, 700, 1100));
    }
    EXPECT_THAT(values(4, 2), ElementsAre(200));
    EXPECT_THAT(values(0, 2), ElementsAre(400));
    EXPECT_THAT(values(1, 4), ElementsAre(500));
    EXPECT_THAT(values(3, 4), ElementsAre(100));
  }
}

TEST(Collectives, InPlaceAndBlocking) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto out = run_ranks(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[2]
%c: f32[2] = pointwise { %0 = load %x store %0 }
%c.1 mutates %c = all_reduce sum @g (%c) as ar
%c.2 mutates %c.1 = wait ar
release ar
%c.3 mutates %c.2 = all_reduce sum @g (%c.2) blocking
%d: f32[2] = all_reduce prod @g (%c.3) blocking
%c.4 mutates %c.3 = pointwise { %0 = constant f32 0 store %0 }
output %d output %c.4)",
                               rank_inputs(2, 2), seed);
    EXPECT_THAT(out[0][0].values<float>(), ElementsAre(600.0F * 600.0F, 604.0F * 604.0F));
    EXPECT_EQ(out[0], out[1]);
  }
}

TEST(Collectives, CoalescedOperandsHaveTheirOwnTypes) {
  const auto out = run_ranks(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[2]
%k: i32[3] = pointwise { %0 = constant i32 7 store %0 }
%a: i32[3], %b: f32[2] = all_reduce sum @g (%k, %x) as both
%a.1 mutates %a, %b.1 mutates %b = wait both
output %a.1 output %b.1)",
                             rank_inputs(2, 2), 1);
  EXPECT_THAT(out[0][0].values<std::int32_t>(), ElementsAre(14, 14, 14));
  EXPECT_THAT(out[0][1].values<float>(), ElementsAre(300, 302));
}

TEST(Collectives, TheMeanOfIntegersDoesNotWrap) {
  const auto out = run_ranks(R"(graph g ranks 2 group @g = [0, 1] input %x: i64[2]
%k: i8[2] = pointwise { %0 = load %x %1 = cast i8 %0 store %1 }
%a: i8[2] = all_reduce avg @g (%k) blocking
%y: i64[2] = pointwise { %0 = load %a %1 = cast i64 %0 store %1 }
output %y)",
                             {{i64({2}, {100, -101})}, {i64({2}, {120, -120})}});
  EXPECT_THAT(out[0][0].values<std::int64_t>(), ElementsAre(110, -110));
}

TEST(Collectives, SendAndReceive) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto out = run_ranks(R"(graph g ranks 2 group @g = [0, 1] input %x: f32[2]
%r: f32[2] = pointwise { %0 = constant f32 7 store %0 }
send @g (%x) peer 1 as s
%r.1 mutates %r = recv @g peer 0 as get
wait s
%r.2 mutates %r.1 = wait get
output %r.2)",
                               rank_inputs(2, 2), seed);
    EXPECT_THAT(out[1][0].values<float>(), ElementsAre(100, 101));
    EXPECT_THAT(out[0][0].values<float>(), ElementsAre(7, 7)) << "nothing is received from oneself";
  }
}

TEST(Collectives, WhatIsInFlightMustNotBeTouched) {
  const std::string head =
      "graph g ranks 2 group @g = [0, 1] input %x: f32[1] %c: f32[1] = pointwise { %0 = load %x store %0 } ";
  // Reading the result before the wait.
  const auto early =
      run_ranks(head +
                    "%y: f32[1] = all_reduce sum @g (%c) %z: f32[1] = pointwise { %0 = load %y store %0 } "
                    "%y.1 mutates %y = wait y output %z",
                rank_inputs(2, 1));
  EXPECT_TRUE(std::isnan(early[0][0].values<float>()[0]));
  // Overwriting the input before the wait.
  const auto input = run_ranks(
      head +
          "%y: f32[1] = all_reduce sum @g (%c) %c.1 mutates %c = pointwise { %0 = constant f32 0 store %0 } "
          "%y.1 mutates %y = wait y output %y.1",
      rank_inputs(2, 1));
  EXPECT_NE(input[0][0].values<float>()[0], 300);
  // Overwriting it before the release harms only other ranks: in some order of the ranks, one of them reads
  // too late.
  const std::string late =
      head +
      "%y: f32[1] = all_reduce sum @g (%c) %y.1 mutates %y = wait y "
      "%c.1 mutates %c = pointwise { %0 = constant f32 0 store %0 } release y output %y.1";
  const std::string right = head +
                            "%y: f32[1] = all_reduce sum @g (%c) %y.1 mutates %y = wait y release y "
                            "%c.1 mutates %c = pointwise { %0 = constant f32 0 store %0 } output %y.1";
  bool harmed = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const auto& rank : run_ranks(late, rank_inputs(2, 1), seed))
      harmed |= rank[0].values<float>()[0] != 300;
    for (const auto& rank : run_ranks(right, rank_inputs(2, 1), seed))
      EXPECT_EQ(rank[0].values<float>()[0], 300);
  }
  EXPECT_TRUE(harmed);
}

TEST(Collectives, DeadlocksSayWhoWaitsForWhom) {
  // Rank 0 and 1 disagree on the order of two groups' blocking collectives.
  const auto program = [](bool first) {
    const std::string a = "%a: f32[1] = all_reduce sum @g (%x) blocking ",
                      b = "%b: f32[1] = all_reduce sum @h (%x) blocking ";
    return parse_schedule("graph g ranks 2 group @g = [0, 1] group @h = [1, 0] input %x: f32[1] " +
                          (first ? a + b : b + a) + "output %a");
  };
  const Schedule p = program(true), q = program(false);
  const std::vector<const Schedule*> both = {&p, &q};
  expect_user_error(
      410, "rank 0 is in 'a', which needs rank 1 to start\n  rank 1 is in 'b', which needs rank 0 to start",
      [&] { run(both, rank_inputs(2, 1)); });
}

TEST(Collectives, MismatchesNameBothSides) {
  const Schedule p = parse_schedule(
      "graph g ranks 2 group @g = [0, 1] input %x: f32[1] %a: f32[1] = all_reduce sum @g (%x) blocking "
      "output %a");
  const Schedule q = parse_schedule(
      "graph g ranks 2 group @g = [0, 1] input %x: f32[1] %a: f32[1] = all_reduce max @g (%x) blocking "
      "output %a");
  const std::vector<const Schedule*> both = {&p, &q};
  expect_user_error(410, "rank 0: 'a', all_reduce sum of 1 f32; rank 1: 'a', all_reduce max of 1 f32",
                    [&] { run(both, rank_inputs(2, 1)); });
}

TEST(Collectives, PerRankConstants) {
  const auto out = run_ranks(
      "graph g ranks 2 constant %c: f32[1] = per_rank([1.0], [2.0]) %y: f32[1] = pointwise { %0 = load %c "
      "store %0 } output %y",
      {{}, {}});
  EXPECT_EQ(out[0][0].values<float>()[0], 1);
  EXPECT_EQ(out[1][0].values<float>()[0], 2);
}

// ---- memory plans

// a lives in steps 0..2, b in 1..2, c in 2..3; c may have the bytes of a or b.
std::string planned_text(const std::string& a, const std::string& b, const std::string& c) {
  return R"(graph g
input %x: f32[4]
%a: f32[4] = pointwise { %0 = load %x store %0 }
%b: f32[4] = pointwise { %0 = load %x %1 = add %0, %0 store %1 }
%c: f32[4] = pointwise { %0 = load %a %1 = load %b %2 = add %0, %1 store %2 }
%d: f32[4] output = pointwise { %0 = load %c store %0 }
output %d
plan arena 768 comm 0 live_peak 48 {
)" + ("$a: arena " + a + "\n$b: arena " + b + "\n$c: arena " + c + "\n}");
}

struct WrongPlan {
  const char* name;
  const char *a, *b, *c;
  const char* error;
};

class PlannedMemory : public ::testing::TestWithParam<WrongPlan> {};

TEST_P(PlannedMemory, WhatIsWrongIsNamedWithStorageAndStep) {
  const WrongPlan& p = GetParam();
  const Tensor x = f32({4}, {1, 2, 3, 4});
  const std::string text = planned_text(p.a, p.b, p.c);
  EXPECT_THAT(run_one(text, {x})[0].values<float>(), ElementsAre(3, 6, 9, 12)) << "without the plan";
  try {
    const auto out = run_one(text, {x}, {.use_plan = true});
    EXPECT_STREQ(p.error, "") << "nobody noticed";
    EXPECT_THAT(out[0].values<float>(), ElementsAre(3, 6, 9, 12));
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(p.error), "") << e.what();
    EXPECT_THAT(e.what(), ::testing::HasSubstr(p.error));
  }
}

const WrongPlan kPlans[] = {
    {"Right", "0 bytes 16 steps 0..2", "256 bytes 16 steps 1..2", "512 bytes 16 steps 2..3", ""},
    {"RightWithReuse", "0 bytes 16 steps 0..2", "256 bytes 16 steps 1..2", "0 bytes 16 steps 2..3", ""},
    {"Overlap", "0 bytes 16 steps 0..2", "8 bytes 16 steps 1..2", "512 bytes 16 steps 2..3",
     "step 1 ('b' in node 'b') touches 'b', which shares byte 8 with 'a', which lives until step 2"},
    {"DiesEarly", "0 bytes 16 steps 0..1", "256 bytes 16 steps 1..2", "512 bytes 16 steps 2..3",
     "step 2 ('c' in node 'c') touches 'a', which died after step 1"},
    {"BornLate", "0 bytes 16 steps 0..2", "256 bytes 16 steps 2..2", "512 bytes 16 steps 2..3",
     "step 1 ('b' in node 'b') touches 'b', which is born at step 2"},
    // c takes the bytes of a, one element further: what it overwrites is read later.
    {"ReuseOfWhatIsStillRead", "4 bytes 16 steps 0..2", "256 bytes 16 steps 1..2", "8 bytes 16 steps 2..3",
     "step 2 ('c' in node 'c') touches 'a', which lost byte 8 to 'c', which was born at step 2"},
    {"DiesEarlyAndIsReused", "0 bytes 16 steps 0..0", "0 bytes 16 steps 1..2", "512 bytes 16 steps 2..3",
     "step 2 ('c' in node 'c') touches 'a', which died after step 0"},
};
INSTANTIATE_TEST_SUITE_P(Plans, PlannedMemory, ::testing::ValuesIn(kPlans),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace braid::ir
