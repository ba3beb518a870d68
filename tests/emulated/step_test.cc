// Within a step the host only enqueues, and a step lies between the earlier and later work of its caller's
// stream.
#include "tests/emulated/step_faults.h"
#include "tests/emulated/support.h"
#include "tests/emulated/two_streams.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class StepTest : public EmulatedTest {
 protected:
  static std::string step(StepFault fault) {
    char id[128];
    EXPECT_EQ(two_streams_id(id), nullptr);
    const char* error = run_step({0, 1, id}, fault);
    return error == nullptr ? "" : error;
  }
};

TEST_F(StepTest, ARightStepReportsNothing) {
  EXPECT_EQ(step(StepFault::kNone), "");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(StepTest, WhatAStepMustNotDoIsFound) {
  const struct {
    StepFault fault;
    const char* call;
  } kCases[] = {
      {StepFault::kMalloc, "cudaMalloc"},
      {StepFault::kFree, "cudaFree"},
      {StepFault::kHostAlloc, "cudaHostAlloc"},
      {StepFault::kNcclMemAlloc, "ncclMemAlloc"},
      {StepFault::kRegister, "ncclCommRegister"},
      {StepFault::kStreamSynchronize, "cudaStreamSynchronize"},
      {StepFault::kDeviceSynchronize, "cudaDeviceSynchronize"},
      {StepFault::kEventSynchronize, "cudaEventSynchronize"},
      {StepFault::kPageableCopy, "cudaMemcpyAsync with pageable host memory"},
      {StepFault::kBlockingCopy, "cudaMemcpy"},
      {StepFault::kCreateStream, "cudaStreamCreate"},
      {StepFault::kCreateEvent, "cudaEventCreate"},
      {StepFault::kSplit, "ncclCommSplit"},
      {StepFault::kInstantiate, "cudaGraphInstantiate"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(step(c.fault), "") << c.call;
    EXPECT_THAT(found(),
                Contains("step scope: " + std::string(c.call) + " [mlp (Mul)] on rank 0 within a step"));
  }
}

TEST_F(StepTest, AStepThatDoesNotFollowItsCallerIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(step(StepFault::kNoFork), "");
  EXPECT_THAT(
      found(),
      ElementsAre(AllOf(HasSubstr("race: nothing orders the read by scale_kernel [mlp (Mul)] on rank 0 "
                                  "stream 1 and the write by memset on rank 0 stream 0")),
                  "step scope: scale_kernel [mlp (Mul)] on rank 0 stream 1 does not follow what was on "
                  "the caller's stream 0 before the step"));
}

TEST_F(StepTest, AStepForWhichItsCallerDoesNotWaitIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(step(StepFault::kNoJoin), "");
  EXPECT_THAT(found(),
              IsSupersetOf({HasSubstr("race: nothing orders the read by scale_kernel on rank 0 stream "
                                      "0 and the write by scale_kernel [mlp (Mul)] on rank 0 stream 1"),
                            HasSubstr("step scope: the caller's stream 0 does not wait for the last work "
                                      "that a step puts on another stream, scale_kernel [mlp (Mul)] on "
                                      "rank 0 stream 1")}));
  EXPECT_EQ(step(StepFault::kLateLaunch), "");
  EXPECT_THAT(found(),
              Contains(HasSubstr("step scope: the caller's stream 0 does not wait for the last work that "
                                 "a step puts on another stream, scale_kernel [late (Mul)]")));
}

TEST_F(StepTest, AnOpenGroupAtTheEndOfAStepIsFound) {
  EXPECT_EQ(step(StepFault::kGroupLeftOpen), "");
  EXPECT_THAT(found(),
              ElementsAre("step scope: a step of rank 0 ends between ncclGroupStart and ncclGroupEnd"));
}

TEST_F(StepTest, LaunchesThatNobodyChecksAreFound) {
  EXPECT_EQ(step(StepFault::kUncheckedLaunch), "");
  EXPECT_THAT(found(), ElementsAre("unchecked error: nobody looks at whether the launch of scale_kernel "
                                   "[mlp (Mul)] on rank 0 succeeded"));
  EXPECT_EQ(step(StepFault::kUncheckedFailedLaunch), "");
  // A launch beyond the device's limits is a finding by itself.
  const std::string limits =
      "invalid use: launch of scale_kernel [mlp (Mul)] on rank 0: a block of (2048,1,1)";
  EXPECT_THAT(found(), ElementsAre(HasSubstr(limits),
                                   "unchecked error: scale_kernel [mlp (Mul)] on rank 0 returned 'invalid "
                                   "configuration argument' within a step, and the step goes on and reports "
                                   "success"));
  EXPECT_EQ(step(StepFault::kUncheckedCopy), "");
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("unchecked error: cudaMemcpyAsync [mlp (Mul)] on rank 0 returned "
                                    "'invalid argument'")));
}

TEST_F(StepTest, AStepMaySayThatItFailed) {
  EXPECT_EQ(step(StepFault::kFailedStep), "invalid configuration argument");
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("invalid use: launch of scale_kernel")));  // and nothing unchecked
}

TEST_F(StepTest, AfterAFaultEveryCallReturnsTheStickyError) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_STREQ(calls_after_a_fault(), nullptr);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("illegal access: write_past_end_kernel")));
}

}  // namespace
}  // namespace braid::test
