// Kernels of several ranks that wait for each other by flags in device memory: right ones report nothing,
// whatever the timing; each of the wrong ones is found by what it is wrong in.
#include "tests/emulated/flags.h"

#include "tests/emulated/support.h"
#include "tests/emulated/two_streams.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FlagsTest : public EmulatedTest {
 protected:
  // Returns the result of each rank; `sums_` holds the sums that they found.
  std::vector<std::string> run(FlagFault fault, int ranks = 3, int abandon_after_ms = 0) {
    char id[128];
    EXPECT_EQ(two_streams_id(id), nullptr);
    sums_.assign(static_cast<size_t>(ranks), 0);
    return run_ranks(ranks, [&](int rank) {
      return sum_by_flags({rank, ranks, id}, fault, abandon_after_ms, &sums_[static_cast<size_t>(rank)]);
    });
  }
  std::vector<float> sums_;
};

TEST_F(FlagsTest, KernelsThatWaitForEachOtherReportNothing) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(300);
    emulated::options().seed = seed;
    const int ranks = 1 + static_cast<int>(seed) % 4;
    EXPECT_THAT(run(FlagFault::kNone, ranks), Each(IsEmpty()));
    EXPECT_THAT(sums_, Each(static_cast<float>(ranks * (ranks * (ranks + 1) / 2))));
    EXPECT_THAT(found(), IsEmpty()) << ranks << " ranks, seed " << seed;
  }
}

TEST_F(FlagsTest, RacesAreFoundWhateverTheTiming) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  const struct {
    FlagFault fault;
    const char *one, *other;
  } kCases[] = {
      {FlagFault::kNoEntryBarrier, "write by fill_kernel [make (Constant)] on rank 0",
       "read by sum_twice_kernel"},
      {FlagFault::kNoExitBarrier, "write by fill_kernel [next tenant (Add)] on rank 0",
       "read by sum_twice_kernel"},
      {FlagFault::kOtherBlocksRead, "write by sum_twice_kernel [sum (AllReduce)] on rank 0",
       "read by sum_twice_kernel [sum (AllReduce)] on rank 1"},
      {FlagFault::kFlagNotReleased, "write by sum_twice_kernel [sum (AllReduce)] on rank 0",
       "read by sum_twice_kernel [sum (AllReduce)] on rank 1"},
  };
  for (const auto& c : kCases) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      emulated::options().max_delay = std::chrono::microseconds(seed == 1 ? 0 : 400);
      emulated::options().seed = seed;
      run(c.fault);
      EXPECT_THAT(found(), Contains(AllOf(HasSubstr("race"), HasSubstr(c.one), HasSubstr(c.other))))
          << c.one << ", seed " << seed;
    }
  }
}

TEST_F(FlagsTest, ARankThatDoesNotComeIsATimeOutOfThoseThatWait) {
  emulated::options().time_out = std::chrono::milliseconds(300);
  run(FlagFault::kRankMissing);
  const std::vector<std::string> texts = found();
  for (const char* rank : {"rank 0", "rank 2"})
    EXPECT_THAT(texts,
                Contains(AllOf(HasSubstr("collective time-out: sum_twice_kernel [sum (AllReduce)] on "),
                               HasSubstr(rank), HasSubstr("nobody has changed from 0 within 300 ms"))));
}

TEST_F(FlagsTest, AStepThatTheHostGivesUpEnds) {
  const std::vector<std::string> results = run(FlagFault::kRankMissing, 2, 100);
  EXPECT_THAT(results, Each(IsEmpty()));  // no kernel failed: those that waited have left
  found();                                // what they left undone is read and overwritten in no order
}

TEST_F(FlagsTest, FlagsThatOnlyALaterBlockUsesAreRefused) {
  emulated::options().time_out = std::chrono::milliseconds(300);
  run(FlagFault::kOnlyASecondBlockWaits);
  EXPECT_THAT(found(), Contains(HasSubstr(
                           "the first block of this kernel has neither fences nor releases nor acquires, "
                           "which is not emulated")));
}

TEST_F(FlagsTest, AFlagOutsideOfAllAllocationsIsAnIllegalAccess) {
  emulated::options().time_out = std::chrono::milliseconds(300);
  run(FlagFault::kFlagOutsideOfWindow, 2);
  EXPECT_THAT(found(), Contains(AllOf(HasSubstr("illegal access: sum_twice_kernel"),
                                      HasSubstr("atomic access of 4 bytes outside any allocation"))));
}

}  // namespace
}  // namespace braid::test
