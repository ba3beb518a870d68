#include "pipeline/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/add_send_recv.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/generators.h"
#include "pipeline/transfers.h"
#include "tests/pipeline/lowering_rows.h"
#include "tests/pipeline/random_schedule.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using analysis::Time;

Time us(double v) { return Time::from_us(v); }

PipelineSchedule generated(const char* name, int stages_per_rank, int microbatches, int ranks) {
  return find_generator(name).generate({ranks, stages_per_rank * ranks, microbatches});
}

PipelineCosts random_costs(std::mt19937& random, const PipelineSchedule& s) {
  PipelineCosts costs = unit_costs(s);
  const auto time = [&] { return us(static_cast<double>(1 + random() % 9)); };
  for (StageCosts& c : costs.stages) {
    c.forward = time();
    c.backward_input = time();
    c.backward_weight = time();
    c.full_backward = time();
    c.unshard = time();
    c.reduce_grad = time();
    c.forward_bytes = static_cast<std::int64_t>(random() % 4) * 1000;
    c.backward_bytes = static_cast<std::int64_t>(random() % 4) * 1000;
  }
  costs.link = {us(static_cast<double>(random() % 3)), 1};
  if (random() % 3 == 0) costs.links.push_back({0, 1, {us(5), 0.5}});
  return costs;
}

TEST(Simulate, TwoRanksByHand) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(0.5);
  const Simulation r = simulate(s, costs);
  EXPECT_EQ(r.makespan, us(1 + 0.5 + 1 + 2 + 0.5 + 2));
  EXPECT_EQ(r.ranks[0].busy, us(3));
  EXPECT_EQ(r.ranks[0].dependency, us(4));  // both transfers and what rank 1 computes
  EXPECT_EQ(r.ranks[1].skew, us(1.5));
  EXPECT_EQ(r.ranks[1].tail, us(2.5));
  ASSERT_EQ(r.transfers.size(), 2u);
  EXPECT_EQ(r.transfers[0].begin, us(1));
  EXPECT_EQ(r.transfers[0].received, us(0));
}

// 0F1 could begin at 1 us; 0SEND_F0 is through 4 us after it was posted.
TEST(Simulate, AWaitHoldsUpTheRowUntilItsSendIsThrough) {
  const PipelineSchedule s =
      schedule({0, 1}, 2, {"0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1", "1RECV_F0,1RECV_F1,1F0,1F1"});
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(4);
  const Simulation r = simulate(s, costs);
  EXPECT_EQ(r.cells[0][3].begin, us(5));
  EXPECT_EQ(r.ranks[0].dependency, us(4));
  EXPECT_EQ(r.ranks[0].head_of_line, us(0));
  EXPECT_EQ(r.makespan, us(1 + 4 + 1 + 4 + 1));
}

TEST(Simulate, AWaitHoldsUpTheRowUntilTheGradientsAreReduced) {
  const PipelineSchedule s = schedule({0, 0}, 1, {"0F0,1F0,1B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,0B0"});
  PipelineCosts costs = unit_costs(s);
  costs.stages[1].reduce_grad = us(3);
  const Simulation r = simulate(s, costs);
  EXPECT_EQ(r.cells[0].back().begin, us(7));
  EXPECT_EQ(r.ranks[0].dependency, us(3));
}

TEST(Simulate, AQueueMakesALaterMessageWaitForAnEarlierOne) {
  // Rank 1 asks for micro-batch 0 late; what is behind it in the queue waits although rank 1 could use it.
  const PipelineSchedule s = schedule({0, 1}, 2, {"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1F0,1RECV_F1,1F1"});
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(3);
  const Simulation r = simulate(s, costs);
  // RECV_F1 is posted when 1F0 ends, at 5; its message existed at 2, alone it would have come at 5.
  EXPECT_EQ(r.makespan, us(5 + 3 + 1));
  EXPECT_EQ(r.ranks[1].head_of_line, us(3));
  EXPECT_EQ(r.ranks[1].dependency, us(0));
}

TEST(Simulate, BufferedMessagesLeaveWithoutTheirReceive) {
  const PipelineSchedule s = schedule({0, 1}, 2, {"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1F0,1RECV_F1,1F1"});
  PipelineCosts costs = unit_costs(s);
  costs.stages[1].forward = us(10);
  costs.link.latency = us(3);
  EXPECT_EQ(simulate(s, costs).makespan, us(1 + 3 + 10 + 3 + 10));
  EXPECT_EQ(simulate(s, costs, {QueuePolicy::Kind::edge, 1}).makespan, us(1 + 3 + 10 + 10));
}

TEST(Simulate, SharedLinksShare) {
  // Rank 1 sends to both neighbours when its container ends.
  const PipelineSchedule s = add_send_recv(
      schedule({0, 1, 2}, 2, {"0F0,0F1,0B0,0B1", "1F0,(1F1;1B0)OVERLAP_F_B,1B1", "2F0,2B0,2F1,2B1"}));
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(4);
  const auto lasts = [&](const char* name) {
    for (const TransferTimes& t : simulate(s, costs).transfers) {
      if (to_string(t.send) == name) return t.end - t.begin;
    }
    return Time{};
  };
  EXPECT_EQ(lasts("1SEND_F1"), us(4));
  costs.shared_links = true;
  EXPECT_EQ(lasts("1SEND_F1"), us(8));
  EXPECT_EQ(lasts("1SEND_B0"), us(8));
  EXPECT_EQ(lasts("0SEND_F0"), us(4));
}

TEST(Simulate, ComputationBesideATransferIsSlowedDown) {
  const PipelineSchedule s = schedule({0, 1}, 2, {"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1RECV_F1,1F0,1F1"});
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(1);
  costs.slowdown = 2000;
  // 0F1 runs beside the first transfer: half done when that ends at 2, done at 2.5. 1F0 begins at 2 and waits
  // for none, half done when the second one begins at 2.5, and takes as long as that for the rest.
  const Simulation r = simulate(s, costs);
  EXPECT_EQ(r.cells[0][2].end, us(2.5));
  EXPECT_EQ(r.cells[1][2].end, us(3.5));
}

TEST(Simulate, ParametersComeBesideTheComputation) {
  const PipelineSchedule s =
      schedule({0, 0}, 1, {"0UNSHARD,1UNSHARD,0F0,1F0,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD,0RESHARD"});
  PipelineCosts costs = unit_costs(s);
  for (StageCosts& c : costs.stages) {
    c.unshard = us(3);
    c.reduce_grad = us(5);
  }
  const Simulation r = simulate(s, costs);
  // 0UNSHARD 0..3, 1UNSHARD 3..6, 0F0 3..4, 1F0 6..7, 1B0 7..9, 1REDUCE_GRAD 9..14, 0B0 9..11,
  // 0REDUCE_GRAD 14..19
  EXPECT_EQ(r.makespan, us(19));
  EXPECT_EQ(r.ranks[0].skew, us(3));
  EXPECT_EQ(r.ranks[0].dependency, us(2));
  EXPECT_EQ(r.ranks[0].tail, us(8));
}

TEST(Simulate, OverlappedMembersTakeLess) {
  const PipelineSchedule s = schedule({0}, 2, {"0F0,(0F1;0B0)OVERLAP_F_B,0B1"});
  PipelineCosts costs = unit_costs(s);
  EXPECT_EQ(simulate(s, costs).makespan, us(6));
  costs.overlap = 800;
  EXPECT_EQ(simulate(s, costs).makespan, us(1 + 2.4 + 2));
  costs.overlap = 100;
  EXPECT_EQ(simulate(s, costs).makespan, us(1 + 2 + 2)) << "no less than the longest";
}

TEST(Simulate, RanksThatWaitForEachOtherAreNamed) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0RECV_B0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  const std::string message = refused(862, [&] {  // error BR0862
    simulate(s, unit_costs(s), {QueuePolicy::Kind::rank, 0});
  });
  EXPECT_THAT(message, ::testing::HasSubstr("1F0"));
  EXPECT_THAT(message, ::testing::HasSubstr("0B0"));
  EXPECT_EQ(simulate(s, unit_costs(s), {QueuePolicy::Kind::edge, 0}).makespan, us(6));
}

TEST(Simulate, TimesThatLeave64BitsAreRefused) {
  const PipelineSchedule s = schedule({0}, 2, {"0F0,0F1,0B0,0B1"});
  PipelineCosts costs = unit_costs(s);
  costs.stages[0].forward = us(9e11);
  refused(863, [&] { simulate(s, costs); });  // error BR0863
  const PipelineSchedule sends = schedule({0, 1}, 1, {"0F0,0SEND_F0", "1RECV_F0,1F0"});
  PipelineCosts slow = unit_costs(sends);
  slow.stages[0].forward_bytes = 1'000'000'000'000'000;
  slow.link.gb_s = 1e-6;  // 10^24 ps
  refused(863, [&] { simulate(sends, slow); });
}

// ---- the slow obvious version: times as unknowns, raised until all rules hold

struct Oracle {
  const PipelineSchedule& s;
  const PipelineCosts& costs;
  QueuePolicy::Kind policy;

  Time makespan() {
    std::map<Action, Time> begin, sent, received, through;  // through: of a transfer, by its SEND
    const auto rank_of = [&](int stage) { return s.rank_of_stage[stage]; };
    const auto queue = [&](Action a) {
      const int own = rank_of(a.stage), peer = rank_of(counterpart(a).stage);
      return policy == QueuePolicy::Kind::rank   ? std::tuple{own, -1, 0}
             : policy == QueuePolicy::Kind::pair ? std::tuple{own, peer, 0}
                                                 : std::tuple{own, peer, is_send(a.kind) ? 1 : 2};
    };
    Time last;
    for (bool again = true; again;) {
      again = false;
      const auto raise = [&](std::map<Action, Time>& times, Action a, Time t) {
        if (const auto [it, fresh] = times.try_emplace(a, Time{-1}); it->second < t) {
          it->second = t;
          again = true;
        }
      };
      const auto of = [](const std::map<Action, Time>& times, Action a) {
        const auto found = times.find(a);
        return found == times.end() ? Time{} : std::max(Time{}, found->second);
      };
      for (const Row& row : s.rows) {
        Time now;
        std::map<std::tuple<int, int, int>, Time> free;
        for (const Action a : row) {
          if (a.kind == ActionKind::idle) continue;
          if (is_send(a.kind) || is_recv(a.kind)) {
            const Action send = is_send(a.kind) ? a : counterpart(a);
            Time& head = free[queue(a)];
            raise(is_send(a.kind) ? sent : received, send, std::max(now, head));
            raise(through, send,
                  std::max(of(sent, send), of(received, send)) +
                      costs.transfer(send, rank_of(send.stage), rank_of(counterpart(send).stage)));
            head = of(through, send);
            last = std::max(last, head);
            continue;
          }
          Time at = now;
          if (const Action recv = recv_before(s, a); recv.kind != ActionKind::idle)
            at = std::max(at, of(through, counterpart(recv)));
          raise(begin, a, at);
          now = of(begin, a) + costs.of(a);
          last = std::max(last, now);
        }
      }
    }
    return last;
  }
};

TEST(Simulate, EqualsTimesAsUnknownsOnRandomSchedules) {
  for (int k = 0; k < random_cases(300); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const PipelineSchedule s = random_lowered(random, {.overlap = false});
    const PipelineCosts costs = random_costs(random, s);
    for (const QueuePolicy::Kind kind :
         {QueuePolicy::Kind::rank, QueuePolicy::Kind::pair, QueuePolicy::Kind::edge}) {
      const Simulation r = simulate(s, costs, {kind, 0});
      ASSERT_EQ(r.makespan, (Oracle{s, costs, kind}.makespan())) << print(s);
      for (std::size_t rank = 0; rank < s.rows.size(); ++rank)
        ASSERT_EQ(r.ranks[rank].busy + r.ranks[rank].idle(), r.makespan);
    }
  }
}

// Holds the proof's claim about every timing against some timings: rows with neighbours swapped and batches.
TEST(Simulate, EndsForAllTimingsOrForNoneAsTheProofSays) {
  int safe = 0, cycles = 0;
  for (int k = 0; k < random_cases(600); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const PipelineSchedule s = random_lowered(
        random,
        {.swaps = static_cast<int>(random() % 12), .batches = random() % 2 == 0, .waits = random() % 3 == 0},
        true);
    for (const QueuePolicy::Kind kind :
         {QueuePolicy::Kind::rank, QueuePolicy::Kind::pair, QueuePolicy::Kind::edge}) {
      const QueuePolicy policy{kind, static_cast<int>(random() % 3)};
      const Proof proof = prove_deadlock_free(s, policy);
      if (std::holds_alternative<ChannelMismatch>(proof)) continue;  // the simulator knows messages by name
      for (int timing = 0; timing < 4; ++timing) {
        PipelineCosts costs = random_costs(random, s);
        costs.shared_links = timing == 3;
        bool ended = true;
        try {
          simulate(s, costs, policy);
        } catch (const ir::UserError& e) {
          ASSERT_EQ(e.code(), 862);
          ended = false;
        }
        ASSERT_EQ(ended, is_safe(proof)) << to_string(policy) << "\n" << print(s) << to_text(s, proof);
      }
      ++(is_safe(proof) ? safe : cycles);
    }
  }
  EXPECT_GT(safe, random_cases(100));
  EXPECT_GT(cycles, random_cases(100));
}

TEST(Simulate, ChannelPolicyDecidesAboutALoweredSchedule) {
  PipelineSchedule s = generated("Interleaved1F1B", 2, 16, 8);
  for (Row& row : s.rows) std::erase_if(row, [](Action a) { return a.kind == ActionKind::idle; });
  s = add_send_recv(s);
  PipelineCosts costs = unit_costs(s);
  costs.link.latency = us(0.25);
  const Time by_rank = simulate(s, costs, {QueuePolicy::Kind::rank, 0}).makespan;
  const Time by_edge = simulate(s, costs, {QueuePolicy::Kind::edge, 0}).makespan;
  EXPECT_EQ(by_edge, us(124.5));
  EXPECT_GT(by_rank.us(), 1.5 * by_edge.us());
}

}  // namespace
}  // namespace braid::test
