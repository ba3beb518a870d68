// Golden cases that take generated schedules through lowering, step table and proof.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/add_send_recv.h"
#include "pipeline/defer_recv.h"
#include "pipeline/generators.h"
#include "pipeline/lower.h"
#include "pipeline/step_table.h"
#include "tests/pipeline/lowering_rows.h"

namespace braid::test {
namespace {

PipelineSchedule generate(const char* name, int stages_per_rank, int microbatches, int ranks) {
  return find_generator(name).generate({ranks, stages_per_rank * ranks, microbatches});
}

int steps(const char* name, int v, int m, int p) {
  const StepTable t = step_table(add_send_recv(generate(name, v, m, p)));
  EXPECT_FALSE(t.deadlock()) << name << " " << v << " " << m << " " << p;
  return t.steps;
}

struct Counts {
  int stages_per_rank, microbatches, ranks;
  int interleaved, breadth_first, zero_bubble;  // -1: not listed
};

constexpr Counts kG20[] = {{2, 2, 2, 26, 27, 29},
                           {2, 4, 4, 80, 81, 85},
                           {2, 8, 4, 149, 149, 152},
                           {2, 8, 8, 242, 241, 245},
                           {4, 4, 4, 168, 169, 185},
                           {4, 8, 4, 325, 325, 324},
                           {4, 8, 8, 546, 545, 569},
                           {4, 16, 4, 643, 637, 600},
                           {4, 32, 4, 1279, 1261, 1152},
                           {4, 64, 4, 2551, 2509, 2256},
                           {4, 16, 16, 1882, 1873, 1913},
                           {4, 32, 32, 6858, 6833, 6905},
                           {4, 128, 64, 51625, 51505, 28897},
                           {3, 2, 2, 42, 43, 47},
                           {3, 8, 2, 165, 163, 179},
                           {3, 12, 4, 352, 349, 340},
                           {4, 6, 3, 203, 204, 236},
                           {4, 10, 5, 472, 470, 462},
                           {2, 3, 4, 68, -1, 62},
                           {2, 10, 4, 185, -1, 188},
                           {2, 15, 4, 273, -1, 270}};

TEST(GeneratedLowering, G20StepCounts) {
  for (const Counts& c : kG20) {
    SCOPED_TRACE(::testing::Message() << c.stages_per_rank << ", " << c.microbatches << ", " << c.ranks);
    EXPECT_EQ(steps("Interleaved1F1B", c.stages_per_rank, c.microbatches, c.ranks), c.interleaved);
    if (c.breadth_first >= 0) {
      EXPECT_EQ(steps("LoopedBFS", c.stages_per_rank, c.microbatches, c.ranks), c.breadth_first);
    }
    EXPECT_EQ(steps("InterleavedZeroBubble", c.stages_per_rank, c.microbatches, c.ranks), c.zero_bubble);
  }
}

TEST(GeneratedLowering, G21ZbvTakes47Steps) { EXPECT_EQ(steps("ZBVZeroBubble", 2, 4, 2), 47); }

TEST(GeneratedLowering, IdleCellsAndUnshardRowsMoveTheTransfers) {
  PipelineSchedule s = generate("Interleaved1F1B", 2, 8, 4);
  EXPECT_EQ(step_table(add_send_recv(s)).steps, 149);
  EXPECT_EQ(step_table(lower(s, {.unshard = UnshardOptions{}}).schedule).deadlock(), false);
  for (Row& row : s.rows) std::erase_if(row, [](Action a) { return a.kind == ActionKind::idle; });
  EXPECT_EQ(step_table(add_send_recv(s)).steps, 148);
}

int unshards(int window, int stage) {
  const PipelineSchedule s =
      lower(generate("Interleaved1F1B", 4, 16, 4), {.unshard = UnshardOptions{.residency = window}}).schedule;
  int count = 0;
  for (const Row& row : s.rows) {
    count += static_cast<int>(std::ranges::count(row, Action{ActionKind::unshard, stage, -1}));
  }
  return count;
}

TEST(GeneratedLowering, G12WindowOfThreeGathersFourTimesWindowOfFourOnce) {
  EXPECT_EQ(unshards(3, 15), 4);
  EXPECT_EQ(unshards(4, 15), 1);
}

// Every generator of the registry, at sizes that it is defined for: lowered, and proved for every policy.
TEST(GeneratedLowering, EveryGeneratedScheduleIsProvedUnderEveryPolicy) {
  int proved = 0;
  for (const Generator& g : generators()) {
    for (const GeneratorOptions& o : std::vector<GeneratorOptions>{{2, 2, 4},
                                                                   {4, 4, 8},
                                                                   {2, 4, 4},
                                                                   {4, 8, 8},
                                                                   {3, 6, 6},
                                                                   {4, 8, 16},
                                                                   {2, 6, 4},
                                                                   {1, 1, 3},
                                                                   {1, 2, 2}}) {
      PipelineSchedule s;
      try {
        s = g.generate(o);
      } catch (const ir::UserError&) {
        continue;
      }
      const PipelineSchedule lowered = add_send_recv(s);
      for (const QueuePolicy::Kind kind :
           {QueuePolicy::Kind::rank, QueuePolicy::Kind::pair, QueuePolicy::Kind::edge}) {
        for (const int buffered : {0, 1, 3}) {
          const Proof proof = prove_deadlock_free(lowered, {kind, buffered});
          ASSERT_TRUE(is_safe(proof)) << g.name << ": " << to_text(lowered, proof);
          EXPECT_EQ(check_certificate(lowered, std::get<PassingOrder>(proof)), "") << g.name;
          ++proved;
        }
      }
    }
  }
  EXPECT_GT(proved, 200);
}

// These rows pass the unit-step table, but hang on a shared queue.
TEST(GeneratedLowering, DeferredReceivesPassTheStepTableAndHangOnOneQueuePerRank) {
  for (const auto& [v, m, p] :
       std::vector<std::tuple<int, int, int>>{{2, 2, 2}, {2, 4, 4}, {2, 8, 4}, {4, 8, 4}}) {
    const PipelineSchedule deferred = defer_recv(add_send_recv(generate("Interleaved1F1B", v, m, p)));
    EXPECT_FALSE(step_table(deferred).deadlock());
    for (const QueuePolicy::Kind kind : {QueuePolicy::Kind::rank, QueuePolicy::Kind::pair}) {
      const Proof proof = prove_deadlock_free(deferred, {kind, 0});
      ASSERT_TRUE(std::holds_alternative<RendezvousCycle>(proof)) << v << " " << m << " " << p;
      EXPECT_FALSE(std::get<RendezvousCycle>(proof).blocked.empty());
    }
    EXPECT_TRUE(is_safe(prove_deadlock_free(deferred, {QueuePolicy::Kind::edge, 0})));
  }
}

TEST(GeneratedLowering, DeferredReceivesOfAVShapeMixUpTheMessagesOfAnEdge) {
  const PipelineSchedule deferred = defer_recv(add_send_recv(generate("ZBVZeroBubble", 2, 4, 2)));
  EXPECT_FALSE(step_table(deferred).deadlock());
  const Proof proof = prove_deadlock_free(deferred, {QueuePolicy::Kind::edge, 0});
  ASSERT_TRUE(std::holds_alternative<ChannelMismatch>(proof)) << to_text(deferred, proof);
  const ChannelMismatch& m = std::get<ChannelMismatch>(proof);
  EXPECT_EQ(m.from, 0);
  EXPECT_EQ(m.to, 1);
  EXPECT_EQ(to_string(m.send.action), "0SEND_F2");
  EXPECT_EQ(to_string(m.recv.action), "2RECV_B0");
  refused(838, [&] { require_deadlock_free(deferred, {QueuePolicy::Kind::edge, 0}); });  // error BR0838
}

// Rows whose RECVs stand before the SENDs that they answer: a rank that waits for each action in turn hangs.
// On a queue per edge a posted RECV blocks nothing.
TEST(GeneratedLowering, G09AndG18HangOnSharedQueuesOnly) {
  const PipelineSchedule g09 = schedule({0, 1}, 2,
                                        {"0RECV_B0,0F0,0SEND_F0,0F1,0SEND_F1,0I0,0W0,0RECV_B1,0I1,0W1",
                                         "1RECV_F0,1RECV_F1,1F0,1I0,1SEND_B0,1W0,1F1,1I1,1SEND_B1,1W1"});
  const PipelineSchedule g18 =
      schedule({0, 1}, 1, {"0F0,0RECV_B0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  for (const PipelineSchedule& s : {g09, g18}) {
    EXPECT_TRUE(step_table(s).deadlock());
    EXPECT_FALSE(is_safe(prove_deadlock_free(s, {QueuePolicy::Kind::rank, 0})));
    EXPECT_FALSE(is_safe(prove_deadlock_free(s, {QueuePolicy::Kind::pair, 0})));
    EXPECT_TRUE(is_safe(prove_deadlock_free(s, {QueuePolicy::Kind::edge, 0})));
  }
}

// The hang that was seen on two nodes: each rank at a SEND whose RECV stands after the other's.
TEST(GeneratedLowering, TheReportedHangIsNamedOnBothRanks) {
  const PipelineSchedule s =
      schedule({0, 1, 0, 1}, 2,
               {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,"
                "2SEND_B0,2RECV_B1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1",
                "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,"
                "3B1,3SEND_B1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1"});
  EXPECT_FALSE(step_table(s).deadlock());
  const Proof proof = prove_deadlock_free(s, {QueuePolicy::Kind::rank, 0});
  ASSERT_TRUE(std::holds_alternative<RendezvousCycle>(proof));
  const std::string text = to_text(s, proof);
  EXPECT_THAT(text, ::testing::HasSubstr("0SEND_F1"));
  EXPECT_THAT(text, ::testing::HasSubstr("1SEND_F0"));
  refused(839, [&] { require_deadlock_free(s, {QueuePolicy::Kind::rank, 0}); });  // error BR0839
}

}  // namespace
}  // namespace braid::test
