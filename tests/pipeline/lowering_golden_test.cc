// The lowering passes on the golden cases of the reference: row by row.
#include <gmock/gmock.h>

#include <random>

#include "pipeline/add_reduce_grad.h"
#include "pipeline/add_send_recv.h"
#include "pipeline/add_unshard_reshard.h"
#include "pipeline/defer_recv.h"
#include "pipeline/generators.h"
#include "pipeline/lower.h"
#include "pipeline/merge_backward.h"
#include "pipeline/p2p_rounds.h"
#include "pipeline/step_table.h"
#include "tests/pipeline/lowering_rows.h"

namespace braid::test {
namespace {

using testing::ElementsAre;

TEST(PipelineLowering, G01SendRecvOfTwoRanks) {
  const PipelineSchedule s = schedule({0, 1}, 2, {"0F0,0F1,,0B0,,0B1", ",1F0,1B0,1F1,1B1,"});
  EXPECT_THAT(texts(add_send_recv(s)), ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                                   "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"));
}

// Interleaved 1F1B of 2 ranks, 2 stages each, 2 micro-batches.
PipelineSchedule g05() {
  return schedule({0, 1, 0, 1}, 2,
                  {"0F0,0F1,2F0,2F1,,2B0,,2B1,,0B0,,0B1", ",1F0,1F1,3F0,3B0,3F1,3B1,,1B0,,1B1"});
}

TEST(PipelineLowering, G05FullLoweringOfInterleaved1F1B) {
  const Lowered lowered = lower(g05(), {.unshard = UnshardOptions{}, .reduce_grad = true});
  EXPECT_THAT(
      texts(lowered.schedule),
      ElementsAre("0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,"
                  "2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,2REDUCE_GRAD,2RESHARD,0RECV_B0,0B0,0RECV_B1,"
                  "0B1,0REDUCE_GRAD,0RESHARD",
                  "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,"
                  "3SEND_B0,1RECV_B0,3F1,3B1,3SEND_B1,1RECV_B1,3REDUCE_GRAD,3RESHARD,1B0,1SEND_B0,1B1,"
                  "1SEND_B1,1REDUCE_GRAD,1RESHARD"));
}

// The expected rows are those of torch 2.15 for ZBV of 2 ranks and 2 micro-batches, including FSDP.
TEST(PipelineLowering, WaitsStandWherePyTorchHasThem) {
  const PipelineSchedule zbv = find_generator("ZBV").generate({2, 4, 2});
  const Lowered lowered = lower(zbv, {.unshard = UnshardOptions{}, .reduce_grad = true, .waits = true});
  const std::string written =
      "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3I0,3SEND_B0,3RECV_F1,3W0,3F1,3I1,3SEND_B1,"
      "0RECV_B0,3W1,3REDUCE_GRAD,3WAIT_REDUCE_GRAD,3RESHARD,0I0,0WAIT_SEND_F0,0W0,0RECV_B1,0I1,0WAIT_SEND_F1,"
      "0W1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD,3WAIT_SEND_B0,3WAIT_SEND_B1\r\n"
      "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1F1,2RECV_B0,2F1,2SEND_F1,2I0,2WAIT_SEND_F0,2W0,"
      "2RECV_B1,1I0,1SEND_B0,1W0,2I1,2WAIT_SEND_F1,2W1,2REDUCE_GRAD,2WAIT_REDUCE_GRAD,2RESHARD,1I1,1SEND_B1,"
      "1W1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1\r\n";
  EXPECT_EQ(print(lowered.schedule, LineEnd::crlf), written);
  EXPECT_EQ(parse_schedule(written), lowered.schedule);
}

// In the last one rank 0 sends and waits before it receives, and so does rank 1.
TEST(PipelineLowering, AWaitThatStandsTooEarlyHangs) {
  const PipelineSchedule safe =
      schedule({0, 1}, 2,
               {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0WAIT_SEND_F1,0B0,0RECV_B1,0B1",
                "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1WAIT_SEND_B0,1F1,1B1,1SEND_B1"});
  const PipelineSchedule hangs =
      schedule({0, 1}, 2,
               {"0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"});
  EXPECT_EQ(check_certificate(safe, require_deadlock_free(safe, {})), "");
  const std::string says = refused(839, [&] { require_deadlock_free(hangs, {}); });  // error BR0839
  EXPECT_THAT(says, testing::HasSubstr("0WAIT_SEND_F1 (rank 0, cell 4) needs 0SEND_F1"));
  EXPECT_EQ(check_certificate(hangs, require_deadlock_free(hangs, {QueuePolicy::Kind::edge, 1})), "");
  EXPECT_TRUE(step_table(hangs).deadlock());
}

TEST(PipelineLowering, ABatchOfReceivesFreesBuffersInTheOrderOfItsMessages) {
  const PipelineSchedule s = schedule({0, 1}, 4,
                                      {"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3",
                                       "(1RECV_F0;1RECV_F1;1RECV_F2)BATCH_P2P,1F0,1F1,1F2,1RECV_F3,1F3"});
  for (const int buffered : {1, 2, 3})
    EXPECT_EQ(check_certificate(s, require_deadlock_free(s, {QueuePolicy::Kind::edge, buffered})), "")
        << buffered;
}

TEST(PipelineLowering, G07DeferralSimple) {
  const PipelineSchedule s = schedule({0, 1}, 2,
                                      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                       "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});
  EXPECT_THAT(texts(defer_recv(s)),
              ElementsAre(print(s.rows[0]), "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"));
}

TEST(PipelineLowering, G09DeferralWithInputAndWeightGradients) {
  const PipelineSchedule s = schedule({0, 1}, 2,
                                      {"0RECV_B0,0F0,0SEND_F0,0F1,0SEND_F1,0I0,0W0,0RECV_B1,0I1,0W1",
                                       "1RECV_F0,1RECV_F1,1F0,1I0,1SEND_B0,1W0,1F1,1I1,1SEND_B1,1W1"});
  EXPECT_THAT(texts(defer_recv(s)),
              ElementsAre("0F0,0RECV_B0,0SEND_F0,0F1,0SEND_F1,0I0,0W0,0RECV_B1,0I1,0W1",
                          "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1I1,1SEND_B1,1W1"));
}

TEST(PipelineLowering, G10DeferralWithContainer) {
  const PipelineSchedule s =
      schedule({0, 1, 1, 0}, 2,
               {"", "1RECV_F0,1RECV_F1,2RECV_B0,1F0,2F0,2SEND_F0,(1F1;2B0)OVERLAP_F_B,2W0,1B0,1SEND_B0,1W0"});
  EXPECT_EQ(print(defer_recv(s).rows[1]),
            "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,2RECV_B0,(1F1;2B0)OVERLAP_F_B,2W0,1B0,1SEND_B0,1W0");
}

PipelineSchedule one_row(int microbatches, const std::string& text, int stages = 2) {
  return schedule(RankOfStage(first_ids<int>(stages)), microbatches, {text});
}

TEST(PipelineLowering, G11UnshardReshard) {
  EXPECT_EQ(print(add_unshard_reshard(one_row(2, "0F0,0F1,,0B0,0B1")).rows[0]),
            "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD");
  EXPECT_EQ(print(add_unshard_reshard(one_row(2, "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1")).rows[0]),
            "0UNSHARD,1UNSHARD,0F0,0F1,1F0,1F1,1B0,1B1,1RESHARD,0B0,0B1,0RESHARD");
  const PipelineSchedule four =
      one_row(2, "0F0,0F1,4F0,4F1,8F0,8F1,12F0,12F1,12B0,12B1,8B0,8B1,4B0,4B1,0B0,0B1", 16);
  EXPECT_EQ(
      print(add_unshard_reshard(four).rows[0]),
      "0UNSHARD,4UNSHARD,8UNSHARD,0F0,0F1,0RESHARD,12UNSHARD,4F0,4F1,8F0,8F1,12F0,12F1,12B0,12B1,12RESHARD,"
      "0UNSHARD,8B0,8B1,8RESHARD,4B0,4B1,4RESHARD,0B0,0B1,0RESHARD");
}

TEST(PipelineLowering, LookaheadMovesOnlyTheUnshards) {
  const PipelineSchedule s = one_row(1, "0F0,1F0,2F0,2B0,1B0,0B0", 3);
  using Lookahead = UnshardOptions::Lookahead;
  EXPECT_EQ(print(add_unshard_reshard(s, {.lookahead = Lookahead::automatic}).rows[0]),
            "0UNSHARD,1UNSHARD,0F0,2UNSHARD,1F0,2F0,2B0,2RESHARD,1B0,1RESHARD,0B0,0RESHARD");
  EXPECT_EQ(print(add_unshard_reshard(s, {.lookahead = Lookahead::per_rank, .per_rank = {1}}).rows[0]),
            "0UNSHARD,0F0,1UNSHARD,1F0,2UNSHARD,2F0,2B0,2RESHARD,1B0,1RESHARD,0B0,0RESHARD");
}

TEST(PipelineLowering, AContainerWidensTheWindow) {
  const PipelineSchedule s = one_row(2, "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0B1");
  EXPECT_EQ(print(add_unshard_reshard(s, {.residency = 1}).rows[0]),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,0UNSHARD,0F1,0RESHARD,1UNSHARD,1B0,0UNSHARD,"
            "(1F1;0B0)OVERLAP_F_B,0RESHARD,1B1,1RESHARD,0UNSHARD,0B1,0RESHARD");
}

// As the window is described, cell by cell.
Row slow_unshard(const Row& r, int residency, int lookahead) {
  Row in, out;
  each_cell(r, [&](std::size_t, std::size_t p, auto m) {
    if (r[p].kind == ActionKind::idle) return;
    if (is_container(r[p].kind)) in.push_back(r[p]);
    in.insert(in.end(), m.begin(), m.end());
  });
  std::vector<int> active;
  const auto window = [&](std::size_t from, int n) {
    std::vector<int> stages;
    for (std::size_t p = from; p < in.size() && static_cast<int>(stages.size()) < n; p += cell_size(in, p))
      for (const Action a : members(in, p))
        if (is_compute(a.kind) && std::ranges::find(stages, a.stage) == stages.end())
          stages.push_back(a.stage);
    return stages;
  };
  for (std::size_t p = 0; p < in.size(); p += cell_size(in, p)) {
    const auto wanted = window(p, residency);
    std::ranges::sort(active);
    std::erase_if(active, [&](int s) {
      if (std::ranges::find(wanted, s) != wanted.end()) return false;
      out.push_back({ActionKind::reshard, s, -1});
      return true;
    });
    for (const int s : window(p, lookahead)) {
      if (std::ranges::find(active, s) != active.end()) continue;
      out.push_back({ActionKind::unshard, s, -1});
      active.push_back(s);
    }
    out.insert(out.end(), in.begin() + static_cast<long>(p),
               in.begin() + static_cast<long>(p + cell_size(in, p)));
  }
  std::ranges::sort(active);
  for (const int s : active) out.push_back({ActionKind::reshard, s, -1});
  return out;
}

TEST(PipelineLowering, UnshardEqualsItsDescriptionOnRandomRows) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int stages = 1 + static_cast<int>(random() % 6);
    Row r;
    for (int i = 0; i < 30; ++i) {
      const auto any = [&] {
        return Action{random() % 2 ? ActionKind::forward : ActionKind::full_backward,
                      static_cast<int>(random() % static_cast<unsigned>(stages)), 0};
      };
      if (random() % 5 == 0) r.push_back({ActionKind::overlap_f_b, -1, 2}), r.push_back(any());
      r.push_back(any());
      if (random() % 6 == 0) r.push_back({});
      if (random() % 9 == 0) r.push_back({ActionKind::reduce_grad, 0, -1});
    }
    PipelineSchedule s{RankOfStage(first_ids<int>(stages)), {r}, 1};
    const int residency = 1 + static_cast<int>(random() % 4);
    const int lookahead = 1 + static_cast<int>(random() % static_cast<unsigned>(residency));
    const PipelineSchedule fast = add_unshard_reshard(
        s,
        {.residency = residency, .lookahead = UnshardOptions::Lookahead::per_rank, .per_rank = {lookahead}});
    ASSERT_EQ(print(fast.rows[0]), print(slow_unshard(r, residency, lookahead))) << print(r);
  }
}

TEST(PipelineLowering, G13ReduceGrad) {
  EXPECT_EQ(print(add_reduce_grad(one_row(2, "0F0,0F1,,0B0,0B1")).rows[0]), "0F0,0F1,0B0,0B1,0REDUCE_GRAD");
  EXPECT_EQ(print(add_reduce_grad(one_row(2, "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1")).rows[0]),
            "0F0,0F1,1F0,1F1,1B0,1B1,1REDUCE_GRAD,0B0,0B1,0REDUCE_GRAD");
  EXPECT_EQ(print(add_reduce_grad(one_row(1, "0F0,0I0,(1F0;0W0)OVERLAP_F_B,1B0")).rows[0]),
            "0F0,0I0,(1F0;0W0)OVERLAP_F_B,0REDUCE_GRAD,1B0,1REDUCE_GRAD");
}

TEST(PipelineLowering, G14MergeBackward) {
  EXPECT_EQ(print(merge_backward(one_row(3, "0F0,0F1,0F2,0I0,0I1,0W0,0I2,,0W2,0W1")).rows[0]),
            "0F0,0F1,0F2,0I0,0I1,0W0,0B2,0W1");
}

TEST(PipelineLowering, G16RegistrySchedules) {
  EXPECT_THAT(texts(add_send_recv(schedule({0, 1, 1, 0}, 1, {"0F0,,,3F0,3B0,,,0B0", ",1F0,2F0,,,2B0,1B0,"}))),
              ElementsAre("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0",
                          "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0"));
}

TEST(PipelineLowering, G19ConnectionRounds) {
  using Rounds = std::vector<std::vector<P2pConnection>>;
  EXPECT_EQ(p2p_rounds({0, 1, 2, 3, 0, 1, 2, 3}),
            (Rounds{{{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}, {{0, 3}, {1, 2}}, {{3, 0}, {2, 1}}}));
  EXPECT_EQ(p2p_rounds({0, 1, 2, 3, 3, 2, 1, 0}),
            (Rounds{{{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}, {{1, 2}}, {{2, 1}}}));
  EXPECT_EQ(p2p_rounds({0, 1, 0}, false), (Rounds{{{0, 1}}, {{1, 0}}}));
  EXPECT_EQ(p2p_rounds({0, 0}), Rounds{});
}

TEST(PipelineLowering, AContainerSendsInTheOrderOfItsMembers) {
  const PipelineSchedule s =
      schedule({0, 1, 2}, 2, {"0F0,0F1,0B0,0B1", "1F0,(1F1;1B0)OVERLAP_F_B,1B1", "2F0,2B0,2F1,2B1"});
  EXPECT_EQ(
      print(add_send_recv(s).rows[1]),
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,(1F1;1B0)OVERLAP_F_B,1SEND_F1,1SEND_B0,1RECV_B1,1B1,1SEND_B1");
}

TEST(PipelineLowering, RowsThatWaitForEachOtherAreRefused) {
  const std::string message = refused(837, [] {
    add_send_recv(schedule({0, 1, 0}, 2, {"0F0,2F1,0F1,2F0,2B0,2B1,0B0,0B1", "1F0,1F1,1B0,1B1"}));
  });
  EXPECT_THAT(message, testing::HasSubstr("rank 0, cell 1: 2F1 needs 1F1 of rank 1"));
  EXPECT_THAT(message, testing::HasSubstr("rank 1, cell 1: 1F1 needs 0F1 of rank 0"));
}

TEST(PipelineLowering, EmptyAndSingleRankSchedulesAreLowered) {
  EXPECT_EQ(lower({}).schedule, PipelineSchedule{});
  EXPECT_EQ(print(lower(schedule({0, 0}, 1, {"0F0,1F0,1B0,0B0"})).schedule.rows[0]), "0F0,1F0,1B0,0B0");
  EXPECT_EQ(print(lower(schedule({0}, 0, {",,"})).schedule.rows[0]), "");
}

TEST(PipelineLowering, AnUnsafeDeferralIsRefusedOrLeftOut) {
  LowerOptions options{.defer_recv = true, .channels = {QueuePolicy::Kind::rank}};
  EXPECT_THAT(refused(839, [&] { lower(g05(), options); }), testing::HasSubstr("needs"));
  options.unsafe_deferral = LowerOptions::UnsafeDeferral::leave_out;
  const Lowered lowered = lower(g05(), options);
  EXPECT_EQ(lowered.schedule, add_send_recv(g05()));
  EXPECT_THAT(lowered.deferral_left_out, testing::HasSubstr("wait for each other"));
  EXPECT_EQ(check_certificate(lowered.schedule, lowered.certificate), "");
  options.channels.kind = QueuePolicy::Kind::edge;
  EXPECT_EQ(lower(g05(), options).schedule, defer_recv(add_send_recv(g05())));
}

TEST(PipelineLowering, ResidencyAndLookaheadAreChecked) {
  using Lookahead = UnshardOptions::Lookahead;
  const PipelineSchedule s = one_row(1, "0F0,0B0", 1);
  refused(840, [&] { add_unshard_reshard(s, {.residency = 0}); });
  refused(840, [&] { add_unshard_reshard(s, {.lookahead = Lookahead::per_rank, .per_rank = {1, 1}}); });
  refused(840, [&] { add_unshard_reshard(s, {.lookahead = Lookahead::per_rank, .per_rank = {0}}); });
}

}  // namespace
}  // namespace braid::test
