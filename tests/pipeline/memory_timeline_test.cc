#include "pipeline/memory_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pipeline/add_send_recv.h"
#include "pipeline/lower.h"
#include "tests/pipeline/lowering_rows.h"
#include "tests/pipeline/random_schedule.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using analysis::Time;

Time us(double v) { return Time::from_us(v); }

std::int64_t live_at(const RankMemory& m, Time t) {
  std::int64_t bytes = 0;
  for (const MemoryPoint& p : m.live) {
    if (p.from <= t) bytes = p.bytes;
  }
  return bytes;
}

TEST(MemoryTimeline, TheInputGradientLeavesWhatTheWeightsNeed) {
  const PipelineSchedule s = schedule({0}, 1, {"0F0,0I0,0W0"});
  PipelineCosts costs = unit_costs(s);
  costs.stages[0].activation_bytes = 100;
  costs.stages[0].weight_bytes = 30;
  costs.stages[0].parameter_bytes = 1000;
  costs.stages[0].gradient_bytes = 500;
  const RankMemory m = memory_timeline(s, costs, simulate(s, costs))[0];
  EXPECT_EQ(live_at(m, us(0)), 1100);
  EXPECT_EQ(live_at(m, us(1)), 1100);
  EXPECT_EQ(live_at(m, us(2)), 1530);
  EXPECT_EQ(m.peak, 1530);
  EXPECT_EQ(m.peak_at, us(2));
  EXPECT_EQ(m.at_peak[static_cast<int>(MemoryUse::activations)], 30);
  EXPECT_EQ(m.at_peak[static_cast<int>(MemoryUse::gradients)], 500);
}

TEST(MemoryTimeline, ReceivedValuesLiveFromThePostOfTheirRecv) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  PipelineCosts costs = unit_costs(s);
  for (StageCosts& c : costs.stages) c.activation_bytes = c.weight_bytes = 0;
  costs.stages[0].forward_bytes = 40;
  costs.stages[1].backward_bytes = 50;
  const auto memory = memory_timeline(s, costs, simulate(s, costs));
  EXPECT_EQ(live_at(memory[1], us(0)), 40);
  EXPECT_EQ(live_at(memory[1], us(2)), 0);
  EXPECT_EQ(live_at(memory[0], us(1)), 50);
  EXPECT_EQ(memory[0].peak, 50);
}

TEST(MemoryTimeline, ParametersLiveFromUnshardToReshard) {
  const PipelineSchedule s =
      schedule({0, 0}, 1, {"0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD"});
  PipelineCosts costs = unit_costs(s);
  for (StageCosts& c : costs.stages) {
    c.activation_bytes = c.weight_bytes = 0;
    c.parameter_bytes = 7;
  }
  const RankMemory m = memory_timeline(s, costs, simulate(s, costs))[0];
  EXPECT_EQ(m.peak, 7);
  EXPECT_EQ(m.pieces.size(), 3u);
}

TEST(MemoryTimeline, InferenceKeepsNothing) {
  const PipelineSchedule s = schedule({0}, 3, {"0F0,0F1,0F2"});
  const PipelineCosts costs = unit_costs(s);
  EXPECT_EQ(memory_timeline(s, costs, simulate(s, costs))[0].peak, 1);
}

TEST(MemoryTimeline, OffsetsNeverOverlapAndThePeakIsTheSumOfWhatLives) {
  for (int k = 0; k < random_cases(100); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const PipelineSchedule compute = random_compute(random);
    const PipelineSchedule s = lower(compute, {.unshard = UnshardOptions{}, .reduce_grad = true}).schedule;
    PipelineCosts costs = unit_costs(s);
    for (StageCosts& c : costs.stages) {
      c.activation_bytes = static_cast<std::int64_t>(random() % 5) * 256;
      c.weight_bytes = c.activation_bytes / 2;
      c.forward_bytes = static_cast<std::int64_t>(random() % 3) * 256;
      c.backward_bytes = static_cast<std::int64_t>(random() % 3) * 256;
      c.parameter_bytes = static_cast<std::int64_t>(random() % 9) * 256;
      c.gradient_bytes = static_cast<std::int64_t>(random() % 9) * 256;
      c.unshard = us(static_cast<double>(random() % 3));
    }
    for (const RankMemory& m : memory_timeline(s, costs, simulate(s, costs))) {
      std::int64_t most = 0;
      for (const MemoryPiece& p : m.pieces) {
        std::int64_t sum = 0;
        for (const MemoryPiece& q : m.pieces) {
          if (q.begin <= p.begin && p.begin < q.end) sum += q.bytes;
          const bool same_time = p.begin < q.end && q.begin < p.end;
          const bool same_bytes = p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes;
          ASSERT_TRUE(&p == &q || !same_time || !same_bytes);
        }
        ASSERT_EQ(live_at(m, p.begin), sum);
        most = std::max(most, sum);
        ASSERT_LE(p.offset + p.bytes, m.arena_bytes);
      }
      ASSERT_EQ(m.peak, most);
      ASSERT_EQ(m.at_peak[0] + m.at_peak[1] + m.at_peak[2] + m.at_peak[3], m.peak);
    }
  }
}

}  // namespace
}  // namespace braid::test
