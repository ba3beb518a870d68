// Faults inside of planned memory, by hand; those in generated programs are in tests/codegen_cuda.
#include "tests/emulated/planned.h"

#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlannedMemoryTest : public EmulatedTest {
 protected:
  static std::vector<std::string> planned(PlanFault fault) {
    const char* error = run_planned(fault);
    EXPECT_EQ(error, nullptr) << error;
    return found();
  }
};

TEST_F(PlannedMemoryTest, RightStepsReportNothing) {
  EXPECT_THAT(planned(PlanFault::kNone), IsEmpty());
  EXPECT_THAT(planned(PlanFault::kInPlace), IsEmpty());
}

TEST_F(PlannedMemoryTest, OneElementPastABufferIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(
      planned(PlanFault::kPastBuffer),
      Contains(AllOf(HasSubstr("undeclared access: copy_kernel [/b] on rank 0 stream 0, step 1, writes "
                               "bytes [512, 516) of the arena"),
                     HasSubstr("they lie right behind 'b'"))));
}

TEST_F(PlannedMemoryTest, AnotherPlaceThanTheStepDeclaresIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(
      planned(PlanFault::kOtherBuffer),
      ElementsAre(AllOf(HasSubstr("writes bytes [512, 768) of the arena"), HasSubstr("right behind 'b'"))));
  EXPECT_THAT(planned(PlanFault::kAtomicElsewhere),
              ElementsAre(AllOf(HasSubstr("count_kernel [/b]"), HasSubstr("changes bytes [0, 4)"),
                                HasSubstr("it only reads 'a'"))));
}

TEST_F(PlannedMemoryTest, ConstantsAndInputsAreNeverWritten) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(planned(PlanFault::kConstant),
              ElementsAre(AllOf(HasSubstr("writes bytes [0, 256) of the weights"),
                                HasSubstr("constant 'w' is there"))));
  EXPECT_THAT(planned(PlanFault::kInput), ElementsAre(AllOf(HasSubstr("writes bytes [0, 256) of input 'x'"),
                                                            HasSubstr("input 'x' is there"))));
}

TEST_F(PlannedMemoryTest, AnOutputIsWrittenInItsSizeOnly) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(planned(PlanFault::kLargerOutput),
              Contains(AllOf(HasSubstr("[/y]"), HasSubstr("writes bytes [256, 260)"),
                             HasSubstr("right behind 'y'"))));
}

TEST_F(PlannedMemoryTest, ReadingADeadBufferIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(planned(PlanFault::kDeadBuffer),
              ElementsAre(AllOf(HasSubstr("[/y]"), HasSubstr("reads bytes [256, 512) of the arena"),
                                HasSubstr("'b' is there, but dead: it lives in steps 1 to 2"))));
}

TEST_F(PlannedMemoryTest, ReadingWhatNobodyHasWrittenSinceTheBirthIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(planned(PlanFault::kPartlyWritten),
              ElementsAre(AllOf(HasSubstr("uninitialized read: copy_kernel [/b]"), HasSubstr("step 1"),
                                HasSubstr("reads bytes [128, 256) of 'a', which nobody has written since its "
                                          "birth at step 0"))));
  // It is full of what an earlier run has written.
  EXPECT_THAT(planned(PlanFault::kPreviousRun),
              ElementsAre(AllOf(HasSubstr("uninitialized read"), HasSubstr("bytes [0, 256) of 'a'"))));
  // It is full of what its predecessor has left in the same place.
  EXPECT_THAT(planned(PlanFault::kInPlaceTooShort),
              ElementsAre(AllOf(HasSubstr("uninitialized read: copy_kernel [/y]"),
                                HasSubstr("bytes [252, 256) of 'c'"), HasSubstr("birth at step 2"))));
}

TEST_F(PlannedMemoryTest, BirthsAndDeathsAreOrderedWithOtherStreams) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(
      planned(PlanFault::kUnorderedBirth),
      Contains(AllOf(HasSubstr("race"), HasSubstr("birth of 'c' [/c]"), HasSubstr("copy_kernel [/b]"))));
  EXPECT_THAT(
      planned(PlanFault::kUnorderedEnd),
      Contains(AllOf(HasSubstr("race"), HasSubstr("the end of the run"), HasSubstr("copy_kernel [/y]"))));
}

TEST_F(PlannedMemoryTest, APlanThatContradictsItselfIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(
      planned(PlanFault::kBornInLivingBuffer),
      Contains(AllOf(HasSubstr("memory plan: step 2 [/c]: 'c' is born in bytes [0, 256) of 'a', which lives "
                               "in steps 0 to 3"))));
  EXPECT_THAT(planned(PlanFault::kOutsideItsLife),
              Contains(HasSubstr("memory plan: step 3 [/y] declares 'a', which only lives in steps 0 to 1")));
  EXPECT_THAT(
      planned(PlanFault::kMoreThanPlanned),
      ElementsAre(HasSubstr("memory plan: step 3 [/y] declares bytes [0, 260) of 'c', for which 256 bytes "
                            "are planned")));
}

}  // namespace
}  // namespace braid::test
