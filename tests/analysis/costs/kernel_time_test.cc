#include "analysis/costs/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/costs/machine.h"
#include "tests/support/user_error.h"

namespace braid::analysis {
namespace {

const GpuDescription& h200() {
  static const Machine machine = load_machine("h200");
  return *machine.gpu;
}

// A million threads that each read and write four bytes in order, once, with a loop of ten instructions.
KernelCounts copied() {
  KernelCounts c;
  c.threads = 1 << 20;
  c.blocks = c.threads / 256;
  c.lane_reads = c.lane_writes = c.read_intervals = c.threads;
  c.read_bytes = c.written_bytes = 4 * c.threads;
  c.read_sectors = c.write_sectors = c.block_sectors = c.threads / 8;
  c.lines = 2 * c.threads / 32;
  return c;
}
KernelCard card() {
  KernelCard card;
  card.instructions = 10;
  card.resident_threads = 2048;
  card.loops = {{.instructions = 10, .loads = 1, .stores = 1, .loads_ahead = 1}};
  return card;
}

TEST(KernelTime, EachTermIsItsCountAtItsRate) {
  const PredictedTime t = predicted_time(copied(), card(), h200());
  const double threads = 1 << 20, cycles = 132 * 1980;
  EXPECT_NEAR(t.memory_us, 8 * threads / 4.26e6, 1e-9);
  EXPECT_NEAR(t.l2_us, 8 * threads / 5.6e6, 1e-9);
  EXPECT_NEAR(t.l1_us, threads / 16 / cycles, 1e-9);
  EXPECT_NEAR(t.latency_us, threads / (132 * 2048) * 0.65, 1e-9);
  EXPECT_NEAR(t.issue_us, 10 * threads / 32 / (4 * cycles), 1e-9);
  EXPECT_GT(t.us, t.latency_us);
  EXPECT_LT(t.us, t.memory_us + t.l2_us + t.l1_us + t.latency_us + t.issue_us);
  EXPECT_NEAR(least_us(copied(), h200()), t.memory_us, 1e-9);
}

TEST(KernelTime, LoadsInFlightShortenTheWait) {
  KernelCounts counts = copied();
  counts.lane_reads *= 4;  // in one interval
  KernelCard deep = card();
  deep.loops[0].loads = deep.loops[0].loads_ahead = 4;
  EXPECT_NEAR(predicted_time(counts, deep, h200()).latency_us * 4,
              predicted_time(counts, card(), h200()).latency_us, 1e-9);
}

TEST(KernelTime, AnUnrolledLoopIsNotEnteredForFewAccesses) {
  KernelCounts counts = copied();
  counts.lane_reads *= 3;
  KernelCard unrolled = card();
  unrolled.instructions = 60;
  unrolled.loops[0] = {.instructions = 40, .loads = 4, .stores = 4, .loads_ahead = 4};
  unrolled.loops.push_back({.instructions = 12, .loads = 1, .stores = 1, .loads_ahead = 1, .tail = true});
  const PredictedTime t = predicted_time(counts, unrolled, h200());
  EXPECT_NEAR(t.issue_us, (3 * 12 + 8) * counts.threads / 32 / (4 * 132 * 1980), 1e-9);
  EXPECT_NEAR(t.latency_us, 3 * counts.threads / (132 * 2048) * 0.65, 1e-9) << "one after the other";
}

TEST(KernelTime, CodeBetweenBarriersRunsAsOftenAsThey) {
  KernelCounts counts = copied();
  counts.barriers = 2 * 31 * counts.blocks;
  KernelCard rows = card();
  rows.instructions = 110;
  rows.barriers = 2;
  EXPECT_NEAR(predicted_time(counts, rows, h200()).issue_us,
              (10 + 31 * 100) * counts.threads / 32 / (4 * 132 * 1980), 1e-6);
}

TEST(KernelTime, SectorsOfACacheAreWaitedForLess) {
  KernelCounts counts = copied();
  counts.read_bytes /= 2;  // the launch has read every other sector before
  const double both = predicted_time(counts, card(), h200()).latency_us;
  EXPECT_NEAR(both, counts.threads / (132 * 2048) * (0.65 + 0.133) / 2, 1e-9);
  counts.block_sectors /= 2;  // the same block
  EXPECT_NEAR(predicted_time(counts, card(), h200()).latency_us,
              counts.threads / (132 * 2048) * (0.65 + 0.021) / 2, 1e-9);
}

TEST(KernelTime, OnlyMachinesThatWereMeasuredPredict) {
  EXPECT_TRUE(can_predict(h200()));
  EXPECT_FALSE(can_predict(*load_machine("h100").gpu));
  EXPECT_EQ(predicted_time({}, card(), h200()).us, 0) << "no thread has run";
}

TEST(KernelCards, KeysThatNoModelNeedsAreLeftUnread) {
  const auto cards = parse_kernel_cards(
      R"({"machine": "h200", "cards": [{"program": "p", "kernel": "k", "instructions": 9, "barriers": 2, "resident": 1024,
          "registers": 40, "regions": [{"kind": "loop", "instructions": 5, "loads": 2, "stores": 1, "loads_ahead": 2},
          {"kind": "tail", "instructions": 3, "loads": 1, "stores": 1, "loads_ahead": 1}]}]})",
      "cards.json");
  ASSERT_EQ(cards.size(), 1u);
  EXPECT_EQ(cards[0].kernel, "k");
  ASSERT_EQ(cards[0].loops.size(), 2u);
  EXPECT_EQ(cards[0].loops[0].loads, 2);
  EXPECT_TRUE(cards[0].loops[1].tail);
}

TEST(KernelCards, OtherFilesAreRefused) {
  const auto error = [](const std::string& text) {
    return test::error_of([&] { parse_kernel_cards(text, "cards.json"); });
  };
  EXPECT_NE(error("cards").find("BR0548"), std::string::npos);
  EXPECT_NE(error("{}").find("BR0549"), std::string::npos);
  EXPECT_NE(error(R"({"cards": [{"program": "p", "kernel": "k", "instructions": -1}]})").find("BR0549"),
            std::string::npos);
}

}  // namespace
}  // namespace braid::analysis
