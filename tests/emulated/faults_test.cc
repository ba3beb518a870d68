#include "tests/emulated/faults.h"

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
using ::testing::Not;
using ::testing::SizeIs;

class FaultsTest : public EmulatedTest {
 protected:
  static std::string single(SingleFault fault) {
    const char* error = run_single(fault);
    return error == nullptr ? "" : error;
  }
  static std::vector<std::string> comm(CommFault fault, int ranks = 2) {
    emulated::options().time_out = std::chrono::milliseconds(300);
    char id[128];
    EXPECT_EQ(two_streams_id(id), nullptr);
    return run_ranks(ranks, [&](int rank) { return run_comm({rank, ranks, id}, fault); });
  }
};

TEST_F(FaultsTest, OverwritingWhatAPeerStillReadsIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const int delay : {0, 400}) {
    emulated::options().max_delay = std::chrono::microseconds(delay);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      emulated::options().seed = seed;
      char id[128];
      ASSERT_EQ(two_streams_id(id), nullptr);
      std::vector<float> sums(3);
      run_ranks(3, [&](int rank) {
        return read_peer_directly({rank, 3, id}, false, &sums[static_cast<size_t>(rank)]);
      });
      const auto texts = found();
      EXPECT_THAT(texts, SizeIs(3)) << "one for each rank's memory";
      EXPECT_THAT(texts, Contains(AllOf(HasSubstr("race"),
                                        HasSubstr("read by read_peer_kernel [read neighbour "
                                                  "(AllGather)] on rank 2"),
                                        HasSubstr("write by set_kernel [next tenant (Add)] on rank 0"))));
    }
  }
}

TEST_F(FaultsTest, ReadingAPeerIsFineWithAnExitBarrier) {
  emulated::options().max_delay = std::chrono::microseconds(300);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    emulated::options().seed = seed;
    char id[128];
    ASSERT_EQ(two_streams_id(id), nullptr);
    std::vector<float> sums(2);
    EXPECT_THAT(run_ranks(2,
                          [&](int rank) {
                            return read_peer_directly({rank, 2, id}, true, &sums[static_cast<size_t>(rank)]);
                          }),
                Each(IsEmpty()));
    EXPECT_THAT(sums, ElementsAre(2.0f * 512, 1.0f * 512));
    EXPECT_THAT(found(), IsEmpty());
  }
}

TEST_F(FaultsTest, RightKernelsReportNothing) {
  EXPECT_EQ(single(SingleFault::kNone), "");
  EXPECT_EQ(single(SingleFault::kSharedSynchronised), "");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(FaultsTest, WritingPastAnAllocationIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(single(SingleFault::kWritePastEnd), "an illegal memory access was encountered");
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("illegal access: copy_kernel [node] on rank 0"),
                                         HasSubstr("thread (64,0,0) of block (0,0,0)"),
                                         HasSubstr("out of bounds"), HasSubstr("offset 256"))));
}

TEST_F(FaultsTest, ReadingBeforeAnAllocationIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  single(SingleFault::kReadBeforeStart);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("illegal access: copy_kernel [node] on rank 0")));
}

TEST_F(FaultsTest, UseAfterFreeIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  single(SingleFault::kUseAfterFree);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("in freed memory")));
}

TEST_F(FaultsTest, ReadingMemoryThatNobodyWroteIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(single(SingleFault::kReadUninitialized), "");
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("uninitialized read: copy_kernel [node]"),
                                         HasSubstr("reads bytes [128, 256)"))));
}

TEST_F(FaultsTest, ThreadsThatEndedBeforeABarrierAreFound) {
  EXPECT_EQ(single(SingleFault::kExitBeforeBarrier), "unspecified launch failure");
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("divergent barrier: exit_before_barrier_kernel [node]"),
                                         HasSubstr("24 of the threads it waits for have ended"))));
}

TEST_F(FaultsTest, ThreadsAtDifferentBarriersAreFound) {
  single(SingleFault::kTwoBarriers);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("divergent barrier"), HasSubstr("thread (63,0,0)"))));
}

TEST_F(FaultsTest, ALaneMissingFromAShuffleIsFound) {
  single(SingleFault::kLaneMissing);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("__shfl_xor_sync"), HasSubstr("1 of the threads"))));
}

TEST_F(FaultsTest, ALaneOutsideItsOwnMaskIsFound) {
  single(SingleFault::kLaneOutsideMask);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the lane is not in its own mask")));
}

TEST_F(FaultsTest, MoreSharedMemoryThanAllowedIsRefused) {
  EXPECT_EQ(single(SingleFault::kTooMuchSharedMemory), "cudaErrorInvalidConfiguration");
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("102400 bytes of dynamic shared memory; the kernel may have 49152")));
}

TEST_F(FaultsTest, AFailedDeviceStaysFailed) {
  single(SingleFault::kExitBeforeBarrier);
  found();
  EXPECT_EQ(single(SingleFault::kNone), "unspecified launch failure");
}

TEST_F(FaultsTest, HostCodeReadingDeviceMemoryIsFound) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(host_reads_device(), 0.0f);
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("host access: host code of rank 0 reads 4 bytes of device memory")));
  host_copies_device();
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("host access: host code of rank 0 reads 256 bytes of device memory")));
}

TEST_F(FaultsTest, NeighbouringHalvesAreNoRaceButTheSameOnesAre) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  EXPECT_EQ(write_neighbouring_halves(false), nullptr);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(write_neighbouring_halves(true), nullptr);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("nothing orders the write by halves_kernel")));
}

TEST_F(FaultsTest, AtomicsDoNotRaceWithEachOther) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  int count = 0;
  EXPECT_EQ(count_from_two_streams(false, &count), nullptr);
  EXPECT_EQ(count, 512);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(count_from_two_streams(true, &count), nullptr);
  EXPECT_THAT(found(), Not(IsEmpty()));
}

TEST_F(FaultsTest, RightCommunicationReportsNothing) {
  EXPECT_THAT(comm(CommFault::kNone), Each(IsEmpty()));
  EXPECT_THAT(comm(CommFault::kGroupedSendsAndReceives), Each(IsEmpty()));
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(FaultsTest, DifferentCountsAreFoundWithBothSides) {
  EXPECT_THAT(comm(CommFault::kCountDiffers), Each(Not(IsEmpty())));
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("collective mismatch: call number 0 of communicator"),
                                         HasSubstr("rank 0 calls ncclAllReduce(256 x float32, sum) [block.0 "
                                                   "(AllReduce)]"),
                                         HasSubstr("rank 1 calls ncclAllReduce(255 x float32, sum)"))));
}

TEST_F(FaultsTest, DifferentRootsAreFound) {
  comm(CommFault::kRootDiffers);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("root 1")));
}

TEST_F(FaultsTest, AMissingRankIsNamed) {
  const auto errors = comm(CommFault::kRankMissing);
  EXPECT_EQ(errors[0], "aborted");
  EXPECT_THAT(found(),
              Contains(AllOf(HasSubstr("collective time-out: ncclAllReduce [block.0 (AllReduce)] number 0"),
                             HasSubstr("rank 0 waits; missing after 300 ms: rank 1 (which has called "
                                       "nothing)"))));
}

TEST_F(FaultsTest, SendsThatWaitForEachOtherAreReported) {
  comm(CommFault::kSendsBeforeReceives);
  EXPECT_THAT(
      found(),
      AllOf(Contains(AllOf(HasSubstr("time-out: ncclSend"), HasSubstr("whose latest call is ncclSend"))),
            Contains(AllOf(HasSubstr("collective order: a deadlock"),
                           HasSubstr("rank 0 calls ncclSend [block.0 (AllReduce)] number 0 to rank 1 of "),
                           HasSubstr(" before ncclRecv [block.0 (AllReduce)] number 0 from rank 1")))));
}

TEST_F(FaultsTest, WindowsOutsideNcclMemoryAreFound) {
  EXPECT_THAT(comm(CommFault::kWindowOfCudaMalloc), Each(Not(IsEmpty())));
  EXPECT_THAT(found(),
              Contains(AllOf(HasSubstr("registration"), HasSubstr("not in memory of ncclMemAlloc"))));
}

TEST_F(FaultsTest, AsymmetricWindowsAreFound) {
  comm(CommFault::kWindowSizesDiffer);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("size is 16384 on rank 0 and 8192 on rank 1")));
  comm(CommFault::kWindowOffsetsDiffer);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("offset in its allocation is 0 on rank 0 and 4096 on rank 1")));
}

TEST_F(FaultsTest, BuffersAtDifferentOffsetsOfAWindowAreFound) {
  EXPECT_THAT(comm(CommFault::kBufferOffsetsDiffer), Each(Not(IsEmpty())));
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("receive buffer of rank 0 is at offset 4096"),
                                         HasSubstr("rank 1 is at offset 8192"))));
}

TEST_F(FaultsTest, FreeingARegisteredBufferIsFound) {
  EXPECT_THAT(comm(CommFault::kFreeWhileRegistered), Each(IsEmpty()));
  EXPECT_THAT(found(), AllOf(SizeIs(2), Each(HasSubstr("is freed while registered"))));
}

TEST_F(FaultsTest, HostMemoryInACollectiveIsFound) {
  comm(CommFault::kNotDeviceMemory);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the send buffer is not device memory")));
}

TEST_F(FaultsTest, OverlappingBuffersAreRefused) {
  EXPECT_THAT(comm(CommFault::kOverlappingBuffers), Each(HasSubstr("invalid argument")));
  EXPECT_THAT(found(), Each(HasSubstr("send and receive buffers overlap")));
}

}  // namespace
}  // namespace braid::test
