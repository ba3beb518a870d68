// Which collectives braid_schedule splits, and that no split beats a bound.
#include "passes/overlap/split_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/bounds.h"
#include "analysis/memory_model.h"
#include "analysis/simulator.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass_context.h"
#include "passes/runner.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using namespace passes;
using namespace analysis;

const std::string kEight = "graph main\nranks 8\ngroup @g = [0, 1, 2, 3, 4, 5, 6, 7]\n\ninput %x: f32[16]\n";

struct Outcome {
  ir::Schedule schedule;
  Time makespan;
  std::string text() const { return ir::print(schedule); }
};
Outcome scheduled(const std::string& text, const std::string& passes,
                  std::optional<std::int64_t> cap = std::nullopt) {
  PassContext context;
  context.costs = cost_model_for("h100");
  context.memory_cap = cap;
  Outcome out{ir::parse_schedule(text, "test"), {}};
  run_passes(out.schedule, parse_pass_list(passes), {.check_unchanged = true, .context = &context});
  const Problem p = make_problem(out.schedule, *context.costs);
  out.makespan = simulate_makespan(p, identity_order(p.nodes()));
  return out;
}

// About 2 ms of gradient, ready at once and needed last; a short reduction in the middle, on which all rests.
std::string urgent_behind_large(int elements) {
  return kEight + fmt::format("input %grad: f32[{}]\n\n", elements) +
         fmt::format("%sum: f32[{}] = all_reduce sum @g (%grad)\n", elements) +
         R"(%p: f32[1048576] = extern "gemm" reads(%x) cost(gemm, ns 1000000)
%u: f32[1048576] = all_reduce sum @g (%p)
%u.1 mutates %u = wait u
%c: f32[16] = extern "gemm" reads(%u.1) cost(gemm, ns 1000000)
%sum.1 mutates %sum = wait sum
%e: f32[16] = extern "adam" reads(%sum.1, %c) cost(elementwise, ns 1000)

output %e
)";
}

TEST(SplitSearch, AShortCollectiveGoesBetweenThePartsOfALongOne) {
  const std::string text = urgent_behind_large(134217728);
  const Outcome whole = scheduled(text, "braid_schedule{split=false}"),
                parts = scheduled(text, "braid_schedule");
  EXPECT_THAT(whole.text(), testing::Not(testing::HasSubstr("part1")));
  EXPECT_THAT(parts.text(), testing::HasSubstr("part1"));
  // 3.0 ms become 2.4.
  EXPECT_LT(parts.makespan.ps, whole.makespan.ps * 4 / 5);
  EXPECT_TRUE(ir::verify(parts.schedule).empty());
}

TEST(SplitSearch, WhatNeedsOneOperandOfABucketNeedNotWaitForTheOther) {
  const std::string text = kEight + R"(constant %v: bf16[33554432] = elided(0x1)
constant %w: bf16[33554432] = elided(0x2)

%a: bf16[268435456], %b: bf16[268435456] = all_gather @g (%v, %w)
%a.1 mutates %a, %b.1 mutates %b = wait a
%c: f32[16] = extern "gemm" reads(%a.1) cost(gemm, ns 2000000)
%d: f32[16] = extern "gemm" reads(%c, %b.1) cost(gemm, ns 2000000)

output %d
)";
  const Outcome whole = scheduled(text, "braid_schedule{split=false}"),
                parts = scheduled(text, "braid_schedule");
  EXPECT_THAT(parts.text(), testing::HasSubstr("%b: bf16[268435456] = all_gather @g (%w)"));
  EXPECT_LT(parts.makespan, whole.makespan);
}

TEST(SplitSearch, NothingIsSplitWhereThatGainsNothing) {
  // Hidden as it is.
  const std::string hidden = scheduled(urgent_behind_large(16777216), "braid_schedule").text();
  EXPECT_THAT(hidden, testing::Not(testing::HasSubstr("part1")));
  // All that is exposed is latency.
  const std::string small = kEight + R"(input %grad: f32[1024]

%sum: f32[1024] = all_reduce sum @g (%grad)
%sum.1 mutates %sum = wait sum
%e: f32[16] = extern "adam" reads(%sum.1) cost(elementwise, ns 1000)

output %e
)";
  EXPECT_EQ(scheduled(small, "braid_schedule").text(), ir::print(ir::parse_schedule(small, "test")));
}

TEST(SplitSearch, KeepsTheCap) {
  const std::string text = urgent_behind_large(134217728);
  const ir::Schedule input = ir::parse_schedule(text, "test");
  const std::int64_t cap = MemoryModel(input).planned_bytes(identity_order(analysis::nodes_of(input)));
  const Outcome parts = scheduled(text, "braid_schedule", cap);
  EXPECT_LE(MemoryModel(parts.schedule)
                .planned_bytes(identity_order(static_cast<int>(parts.schedule.nodes.size()))),
            cap);
  EXPECT_THAT(parts.text(), testing::HasSubstr("part1"));
}

// Reductions whose operands are written, and whose results are read, as a whole or in halves.
std::string random_reductions(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::string body, reads;
  std::vector<std::string> last = {"x"};
  const auto work = [&](const std::string& head, const std::string& operands) {
    body += fmt::format("{} = extern \"gemm\" reads({}) cost(gemm, ns {})\n", head, operands,
                        100'000 * (1 + pick(9)));
  };
  const int n = 2 + pick(3);
  for (int k = 0; k < n; ++k) {
    const int half = 1 << (22 + pick(4));
    const auto any = [&] { return "%" + ir::at(last, pick(ir::count_of(last))); };
    const std::string p = fmt::format("p{}", k), a = fmt::format("a{}", k);
    if (pick(2) == 0) {
      work(fmt::format("%{}: f32[{}]", p, 2 * half), any());
    } else {
      body += fmt::format("buffer %{}: f32[{}]\n", p, 2 * half);
      work(fmt::format("%{0}l: f32[{1}] in %{0}", p, half), any());
      work(fmt::format("%{0}r: f32[{1}] in %{0} at {1}", p, half), any());
    }
    body += fmt::format("%{0}: f32[{1}] = all_reduce sum @g (%{2})\n", a, 2 * half, p);
    body += fmt::format("%{0}.1 mutates %{0} = wait {0}\n", a);
    for (int c = 0; c < 2; ++c) {
      const std::string name = fmt::format("c{}{}", k, c);
      const int part = pick(3);
      work("%" + name + ": f32[16]", part == 0
                                         ? fmt::format("%{}.1", a)
                                         : fmt::format("%{}.1 at {} [{}]", a, part == 1 ? 0 : half, half));
      last.push_back(name);
    }
  }
  for (const std::string& name : last) reads += (reads.empty() ? "%" : ", %") + name;
  return kEight + "\n" + body + "%e: f32[16] = extern \"adam\" reads(" + reads +
         ") cost(ns 1000)\n\noutput %e\n";
}

TEST(SplitSearch, NoSplitScheduleIsFasterThanTheBoundOfTheInput) {
  const auto costs = cost_model_for("h100");
  int shorter = 0, split = 0;
  for (int k = 0; k < random_cases(30); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const std::string text = random_reductions(seed);
    const ir::Schedule input = ir::parse_schedule(text, "test");
    const Time bound = input_bound(make_problem(input, *costs, {.channel_order = false}));
    const Outcome whole = scheduled(text, "braid_schedule{split=false}");
    for (const char* passes : {"braid_schedule", "split_collectives{chunks=2},braid_schedule",
                               "split_collectives{chunks=16},braid_schedule{merge=false}"}) {
      const Outcome parts = scheduled(text, passes);
      EXPECT_GE(parts.makespan, bound) << passes << ", seed " << seed << "\n" << text;
      if (std::string_view(passes) != "braid_schedule") continue;
      EXPECT_LE(parts.makespan, whole.makespan) << "seed " << seed;
      shorter += parts.makespan < whole.makespan ? 1 : 0;
      split += parts.text().find("part1") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(shorter, 2);
  EXPECT_GT(split, 2);
}

}  // namespace
}  // namespace braid::test
