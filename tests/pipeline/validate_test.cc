#include "pipeline/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "pipeline/add_send_recv.h"
#include "pipeline/liveness_slots.h"
#include "tests/pipeline/lowering_rows.h"
#include "tests/pipeline/random_schedule.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

TEST(PipelineValidate, G22ValidSchedules) {
  validate(schedule({0, 1}, 1, {"0F0,0B0", "1F0,1B0"}));
  validate(schedule({0, 1}, 1, {"0F0,0I0,0W0", "1F0,1I0,1W0"}));
  validate(schedule({0, 1}, 1, {"0F0", "1F0"}));  // inference
  validate(PipelineSchedule{});
  validate(schedule({0, 0}, 1, {"0F0,1F0,1B0,0B0"}));
}

struct BadCase {
  const char* name;
  int code;  // user error
  RankOfStage ranks;
  int microbatches;
  std::vector<std::string> rows;
  const char* says;
  bool transfers = false;
};

void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

class PipelineBadSchedule : public ::testing::TestWithParam<BadCase> {};

TEST_P(PipelineBadSchedule, IsRefusedWithItsPlace) {
  const BadCase& c = GetParam();
  const std::string message = refused(
      c.code, [&] { validate(schedule(c.ranks, c.microbatches, c.rows), {.transfers = c.transfers}); });
  EXPECT_THAT(message, HasSubstr(c.says));
}

// Numbers are those of the errors: BR0830, BR0831, BR0833, BR0834, BR0835 and BR0836.
INSTANTIATE_TEST_SUITE_P(
    All, PipelineBadSchedule,
    ::testing::Values(
        BadCase{"NoSuchStage", 830, {0, 1}, 1, {"0F0,0B0,2F0", "1F0,1B0"}, "rank 0, cell 2"},
        BadCase{"NoSuchMicrobatch", 830, {0, 1}, 1, {"0F0,0B0", "1F0,1B0,1F1"}, "rank 1, cell 2"},
        BadCase{"MoreRanksThanStages", 831, {0}, 1, {"0F0,0B0", ""}, "2 ranks are too many for 1 stages"},
        BadCase{"ARankWithoutStage", 831, {0, 0}, 1, {"0F0,1F0,1B0,0B0", ""}, "rank 1 owns no stage"},
        BadCase{"AStageOnNoRank", 831, {0, 5}, 1, {"0F0,0B0", ""}, "stage 1"},
        BadCase{"WrongRank", 833, {0, 1}, 1, {"0F0,1F0,0B0", "1B0"}, "rank 0, cell 1: 1F0"},
        BadCase{"TwoForwards", 834, {0, 1}, 1, {"0F0,0F0,0B0", "1F0,1B0"}, "rank 0, cell 1: 0F0"},
        BadCase{"FullAndSplitBackward", 834, {0, 1}, 1, {"0F0,0I0,0W0,0B0", "1F0,1B0"}, "0B0"},
        BadCase{"MissingForward", 835, {0, 1}, 2, {"0F0,0B0", "1F0,1B0,1F1,1B1"}, "0F1 is missing"},
        BadCase{"MissingBackward", 835, {0, 1}, 1, {"0F0", "1F0,1B0"}, "missing"},
        BadCase{"MissingWeight", 835, {0, 1}, 1, {"0F0,0I0", "1F0,1B0"}, "missing"},
        BadCase{"WeightBeforeInput", 836, {0, 1}, 1, {"0F0,0W0,0I0", "1F0,1B0"}, "rank 0, cell 1: 0W0"},
        BadCase{"BackwardBeforeForward", 836, {0, 1}, 1, {"0B0,0F0", "1F0,1B0"}, "rank 0, cell 0: 0B0"},
        BadCase{
            "MissingReceive", 836, {0, 1}, 1, {"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"}, "1F0", true},
        BadCase{"MissingSend",
                835,
                {0, 1},
                1,
                {"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
                "0SEND_F0",
                true},
        BadCase{"SendBeforeItsValue",
                836,
                {0, 1},
                1,
                {"0SEND_F0,0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
                "0SEND_F0",
                true},
        BadCase{"TransferInComputeOnlyRows", 830, {0, 1}, 1, {"0F0,0SEND_F0,0B0", "1F0,1B0"}, "0SEND_F0"},
        BadCase{"NothingToFree", 836, {0}, 1, {"0RESHARD,0F0,0B0"}, "0RESHARD"},
        BadCase{"UnshardedTwice", 834, {0}, 1, {"0UNSHARD,0UNSHARD,0F0,0B0,0RESHARD"}, "cell 1"},
        BadCase{"ReducedTwice", 834, {0}, 1, {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD"}, "cell 3"},
        BadCase{"AwaitedBeforeReduced", 836, {0}, 1, {"0F0,0B0,0WAIT_REDUCE_GRAD,0REDUCE_GRAD"}, "cell 2"},
        BadCase{"ReductionAwaitedTwice",
                834,
                {0},
                1,
                {"0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD"},
                "cell 4"},
        BadCase{"AwaitedBeforeSent",
                836,
                {0, 1},
                1,
                {"0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
                "0SEND_F0 must come before it",
                true},
        BadCase{"SendAwaitedTwice",
                834,
                {0, 1},
                1,
                {"0F0,0SEND_F0,0WAIT_SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
                "rank 0, cell 3",
                true},
        BadCase{"NothingSentToAwait", 830, {0, 0}, 1, {"0F0,0WAIT_SEND_F0,1F0,1B0,0B0"}, "same rank", true},
        BadCase{"WaitInComputeOnlyRows", 830, {0, 1}, 1, {"0F0,0WAIT_SEND_F0,0B0", "1F0,1B0"}, "transfer"}),
    [](const auto& info) { return info.param.name; });

TEST(PipelineValidate, SizesThatOverflowAreRefused) {
  PipelineSchedule s = schedule({0}, 1, {"0F0,0B0"});
  s.microbatches = 1 << 30;
  refused(832, [&] { validate(s); });  // error BR0832
}

TEST(PipelineValidate, AcceptsWhatCanRunAndNoticesEveryMissingAction) {
  for (int k = 0; k < random_cases(100); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    PipelineSchedule s = random_lowered(random, {.overlap = false});
    validate(s, {.transfers = true});
    Row& row = s.rows[random() % s.rows.size()];
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(random() % row.size()));
    EXPECT_THROW(validate(s, {.phases = ValidateOptions::Phases::training, .transfers = true}), ir::UserError)
        << print(s);
  }
}

std::vector<int> slots(const ActivationSlots& a) {
  std::vector<int> out;
  for (const HeldActivation& l : a.activations) out.push_back(l.slot);
  return out;
}

TEST(LivenessSlots, G15OfOneStage) {
  const PipelineSchedule s = schedule({0}, 4, {"0F0,0F1,0I0,0F2,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3"});
  const int stages[] = {0};
  const ActivationSlots a = liveness_slots(s, 0, stages, SlotGranularity::stage_and_microbatch);
  EXPECT_EQ(a.slots, 3);
  EXPECT_THAT(slots(a), ::testing::ElementsAre(0, 1, 2, 0));
  EXPECT_EQ(a.activations[0].start, 0);
  EXPECT_EQ(a.activations[0].end, 4);
  EXPECT_EQ(a.activations[2].start, 3);
  EXPECT_EQ(a.activations[2].end, 9);
}

TEST(LivenessSlots, G15OfTwoStages) {
  const PipelineSchedule s = schedule(
      {0, 1, 0, 1}, 3,
      {"0F0,2F0,0F1,2B0,0B0,2F1,2B1,0B1,0F2,2F2,2B2,0B2", "1F0,1F1,1F2,3F0,3F1,3F2,3B0,3B1,3B2,1B0,1B1,1B2"});
  const int stages[] = {0, 2};
  const ActivationSlots each = liveness_slots(s, 0, stages, SlotGranularity::stage_and_microbatch);
  EXPECT_EQ(each.slots, 3);
  // By stage, then micro-batch: (0,0) (0,1) (0,2) (2,0) (2,1) (2,2).
  EXPECT_THAT(slots(each), ::testing::ElementsAre(0, 2, 0, 1, 0, 1));
  const ActivationSlots together = liveness_slots(s, 0, stages, SlotGranularity::microbatch);
  EXPECT_EQ(together.slots, 2);
  EXPECT_THAT(slots(together), ::testing::ElementsAre(0, 1, 0));
  EXPECT_EQ(together.activations[0].end, 4);
  EXPECT_EQ(together.activations[1].start, 2);
  EXPECT_EQ(together.activations[1].end, 7);
}

TEST(LivenessSlots, RefusesWhatDoesNotLive) {
  const PipelineSchedule s = schedule({0, 1}, 1, {"0F0,0B0", "1F0,1B0"});
  const auto of = [&](const PipelineSchedule& schedule, int rank, std::vector<int> stages) {
    refused(841,
            [&] { liveness_slots(schedule, rank, stages, SlotGranularity::microbatch); });  // error BR0841
  };
  of(s, 0, {});
  of(s, 0, {0, 0});
  of(s, 0, {1});
  of(s, 2, {0});
  of(schedule({0}, 1, {"0F0,0F0,0B0"}), 0, {0});
  of(schedule({0}, 1, {"0F0"}), 0, {0});
  of(schedule({0}, 1, {"0B0,0F0"}), 0, {0});
  of(schedule({0}, 1, {"0F0,0W0"}), 0, {0});
  of(schedule({0}, 2, {"0F0,0B0"}), 0, {0});
}

}  // namespace
}  // namespace braid::test
