// How memory is ordered between kernels and blocks that synchronise by flags, including reorderings that an
// x86 processor would hide.
#include "tests/emulated/memory_order.h"

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MemoryOrderTest : public EmulatedTest {
 protected:
  std::vector<std::string> hand_over(HandOver how, bool two_devices) {
    float result = 0;
    EXPECT_EQ(::hand_over(how, two_devices, &result), nullptr);
    const std::vector<std::string> texts = found();
    if (texts.empty()) {
      EXPECT_EQ(result, 1.0f);
    }
    emulated::reset_devices();
    return texts;
  }
};

TEST_F(MemoryOrderTest, ReleaseAndAcquireOrTwoFencesOrder) {
  for (int run = 0; run < 10; ++run) {
    emulated::options().max_delay = std::chrono::microseconds(run % 2 * 300);
    emulated::options().seed = static_cast<std::uint64_t>(run);
    for (const bool two_devices : {false, true}) {
      EXPECT_THAT(hand_over(HandOver::kReleaseAcquire, two_devices), IsEmpty());
      EXPECT_THAT(hand_over(HandOver::kFences, two_devices), IsEmpty());
    }
  }
}

TEST_F(MemoryOrderTest, WithoutOneOfThemNothingDoes) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const HandOver how : {HandOver::kRelaxedStore, HandOver::kRelaxedLoad, HandOver::kNoFenceBeforeRaise,
                             HandOver::kNoFenceAfterWait, HandOver::kNoBarrierBeforeRaise,
                             HandOver::kNoBarrierAfterWait, HandOver::kWrittenAfterRaise}) {
    for (int run = 0; run < 6; ++run) {
      emulated::options().max_delay = std::chrono::microseconds(run % 3 * 300);
      emulated::options().seed = static_cast<std::uint64_t>(run);
      for (const bool two_devices : {false, true})
        EXPECT_THAT(hand_over(how, two_devices),
                    Contains(AllOf(HasSubstr("race: nothing orders the read by take_kernel"),
                                   HasSubstr("the write by give_kernel"))))
            << static_cast<int>(how);
    }
  }
}

TEST_F(MemoryOrderTest, ScopesOfTheDeviceOrderOnOneDeviceOnly) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const HandOver how : {HandOver::kFencesOfTheDevice, HandOver::kAtomicsOfTheDevice}) {
    EXPECT_THAT(hand_over(how, false), IsEmpty());
    EXPECT_THAT(hand_over(how, true), Contains(HasSubstr("race: nothing orders")));
  }
}

TEST_F(MemoryOrderTest, TheLastBlockNeedsFencesOnBothSides) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  float sum = 0;
  EXPECT_EQ(sum_in_last_block(LastBlock::kRight, &sum), nullptr);
  EXPECT_EQ(sum, 16.0f);
  EXPECT_THAT(found(), IsEmpty());
  for (const LastBlock how : {LastBlock::kNoFenceBefore, LastBlock::kNoFenceAfter, LastBlock::kNoFences}) {
    sum_in_last_block(how, &sum);
    EXPECT_THAT(found(), Contains(HasSubstr("race"))) << static_cast<int>(how);
  }
}

TEST_F(MemoryOrderTest, StreamsThatTakeTurnsNeedFences) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  float value = 0;
  EXPECT_EQ(take_turns(true, &value), nullptr);
  EXPECT_EQ(value, 6.0f);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(take_turns(false, &value), nullptr);
  EXPECT_THAT(found(), Not(IsEmpty()));
}

}  // namespace
}  // namespace braid::test
