// Capture with its prohibitions, and replays under the race checker.
#include "tests/emulated/graph_faults.h"
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

class GraphTest : public EmulatedTest {
 protected:
  std::vector<std::string> run(GraphFault fault, int ranks = 1) {
    char id[128];
    EXPECT_EQ(two_streams_id(id), nullptr);
    sums_.assign(static_cast<size_t>(ranks), 0);
    return run_ranks(ranks, [&](int rank) {
      return run_graph({rank, ranks, id}, fault, &sums_[static_cast<size_t>(rank)]);
    });
  }
  std::vector<float> sums_;
};

TEST_F(GraphTest, ARightProgramReportsNothing) {
  for (const int delay : {0, 300}) {
    emulated::options().max_delay = std::chrono::microseconds(delay);
    for (const int ranks : {1, 2, 3}) {
      EXPECT_THAT(run(GraphFault::kNone, ranks), Each(IsEmpty()));
      // The input is 2 after the second replay; the ranks' sum of that, plus 1, 64 times.
      EXPECT_THAT(sums_, Each((2.0f * static_cast<float>(ranks) + 1.0f) * 64.0f));
      EXPECT_THAT(found(), IsEmpty());
    }
  }
}

TEST_F(GraphTest, UpdatesTakeTheAddressesOfTheNewCapture) {
  EXPECT_THAT(run(GraphFault::kInputUpdated, 2), Each(IsEmpty()));
  EXPECT_THAT(sums_, Each(3.0f * 64.0f));
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_THAT(run(GraphFault::kUpdateOfAnotherShape), Each("cudaErrorGraphExecUpdateFailure"));
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(GraphTest, WhatIsProhibitedWhileCapturingIsFound) {
  const struct {
    GraphFault fault;
    const char *error, *finding;
  } kCases[] = {
      {GraphFault::kNoJoin, "cudaErrorStreamCaptureUnjoined",
       "graph: cudaStreamEndCapture on rank 0: stream 0 does not wait for increase_kernel [increase (Add)] "
       "on rank 0 "
       "stream 1"},
      {GraphFault::kStreamSynchronize, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaStreamSynchronize [increase (Add)] on rank 0: stream 0 is captured"},
      {GraphFault::kDeviceSynchronize, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaDeviceSynchronize [increase (Add)] on rank 0: not while a stream is captured"},
      {GraphFault::kStreamQuery, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaStreamQuery [increase (Add)] on rank 0: stream 1 is captured"},
      {GraphFault::kEventSynchronize, "cudaErrorCapturedEvent",
       "graph: cudaEventSynchronize [increase (Add)] on rank 0: the event was last recorded in a capture"},
      {GraphFault::kMalloc, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaMalloc [increase (Add)] on rank 0: not while a stream is captured"},
      {GraphFault::kMemcpy, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaMemcpy [increase (Add)] on rank 0: not while a stream is captured"},
      {GraphFault::kPageableCopy, "cudaErrorStreamCaptureUnsupported",
       "graph: cudaMemcpyAsync [increase (Add)] on rank 0: a graph cannot copy pageable host memory"},
      {GraphFault::kLegacyStream, "cudaErrorStreamCaptureImplicit",
       "graph: increase_kernel [increase (Add)] on rank 0: stream 0 would have to wait for a stream that is "
       "captured"},
      {GraphFault::kEventFromOutside, "cudaErrorStreamCaptureIsolation",
       "graph: cudaStreamWaitEvent [increase (Add)] on rank 0: the event was recorded outside of the capture "
       "of "
       "stream 0"},
      {GraphFault::kEventOfAnotherCapture, "cudaErrorStreamCaptureMerge",
       "graph: cudaStreamWaitEvent [increase (Add)] on rank 0: the event was recorded in another capture "
       "than that of "
       "stream 0"},
      {GraphFault::kEndOnAnotherStream, "cudaErrorStreamCaptureUnmatched",
       "graph: cudaStreamEndCapture on rank 0: the capture began on stream 0"},
      {GraphFault::kSplit, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
       "graph: ncclCommSplit [increase (Add)] on rank 0: not while a stream is captured"},
      {GraphFault::kWindow, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
       "graph: ncclCommWindowRegister [increase (Add)] on rank 0: not while a stream is captured"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(run(c.fault), ElementsAre(c.error)) << c.finding;
    EXPECT_THAT(found(), ElementsAre(c.finding));
    emulated::reset_devices();
  }
  EXPECT_THAT(run(GraphFault::kMallocWhereRelaxed), Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(GraphTest, RacesBetweenCapturedStreamsAreFoundInTheReplay) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(run(GraphFault::kNoEventBetweenStreams), Each(IsEmpty()));
  EXPECT_THAT(found(), ElementsAre(HasSubstr(
                           "race: nothing orders the read by add_kernel [sum (Add)] on rank 0 stream "
                           "0 of a graph and the write by increase_kernel [increase (Add)] on rank "
                           "0 stream 1 of a graph")));
}

TEST_F(GraphTest, RacesWithAReplayAreFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_THAT(run(GraphFault::kNoEventAfterLaunch), Each(IsEmpty()));
  EXPECT_THAT(found(),
              Contains(AllOf(HasSubstr("race: nothing orders the "),
                             HasSubstr("by increase_kernel on rank 0 "
                                       "stream 1"),
                             HasSubstr("ncclAllReduce [all (AllReduce)] on rank 0 stream 0 of a graph"))));
  EXPECT_THAT(run(GraphFault::kCapturedEventOutside), ElementsAre("cudaErrorCapturedEvent"));
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("graph: cudaStreamWaitEvent on rank 0: the event was last recorded in a "
                                    "capture, which has ended")));
}

TEST_F(GraphTest, AStalePointerInAReplayIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const GraphFault fault : {GraphFault::kInputFreed, GraphFault::kInputReplaced}) {
    EXPECT_THAT(run(fault), ElementsAre("cudaErrorIllegalAddress"));
    EXPECT_THAT(found(), ElementsAre(AllOf(
                             HasSubstr("illegal access: increase_kernel [increase (Add)] on rank 0 stream "
                                       "1 of a graph"),
                             HasSubstr("in freed memory"))));
    emulated::reset_devices();
  }
}

TEST_F(GraphTest, LaunchingADestroyedGraphIsFound) {
  EXPECT_THAT(run(GraphFault::kLaunchAfterDestroy), ElementsAre("cudaGraphLaunch"));
  EXPECT_THAT(found(),
              ElementsAre("graph: cudaGraphLaunch on rank 0 of a graph that does not exist, or no more"));
}

TEST_F(GraphTest, ARankThatDoesNotCaptureWhatItsPeersCaptureIsFound) {
  EXPECT_THAT(run(GraphFault::kOneRankEager, 2), Each(::testing::Not(IsEmpty())));
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr("rank 0 calls ncclAllReduce(64 x float32, sum, in a graph) [all "
                                          "(AllReduce)]"),
                                HasSubstr("rank 1 calls ncclAllReduce(64 x float32, sum) [all"))));
}

TEST_F(GraphTest, DestroyingACommunicatorOfALiveGraphIsFound) {
  EXPECT_THAT(run(GraphFault::kCommunicatorDestroyedFirst), Each(IsEmpty()));
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr("graph: ncclCommDestroy on rank 0"),
                                HasSubstr("waits for ever: there is a graph with its collectives"))));
  EXPECT_THAT(run(GraphFault::kCommunicatorAbortedFirst), Each(IsEmpty()));
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr("graph: ncclCommAbort on rank 0"),
                                HasSubstr("waits for ever: there is a graph with its collectives"))));
}

}  // namespace
}  // namespace braid::test
