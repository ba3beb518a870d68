// NCCL's behaviour: calls that hang until they are aborted, communicators that do not block, groups, and the
// order of calls over several communicators.
#include <array>
#include <chrono>

#include "runtime/emulated/nccl_api.h"
#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kCount = 16, kNcclBytes = kCount * sizeof(float);

// One rank's resources.
struct NcclRank {
  int rank = 0, ranks = 1;
  cudaStream_t stream = nullptr;
  float* data = nullptr;

  NcclRank(int rank, int ranks) : rank(rank), ranks(ranks) {
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&data, kNcclBytes), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(data, 0, kNcclBytes, stream), cudaSuccess);
  }
  ~NcclRank() {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  ncclComm_t join(const ncclUniqueId& id) const {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess);
    return comm;
  }
  ncclResult_t sum(ncclComm_t comm) const {
    return ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, stream);
  }
};

ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

// Until the communicator is no longer busy.
ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

void on_ranks(int ranks, const std::function<void(int)>& run) {
  run_ranks(ranks, [&](int rank) -> const char* {
    run(rank);
    return nullptr;
  });
}

class NcclTest : public EmulatedTest {
 protected:
  // Returns a communicator of all ranks, for tests in which a rank is missing. The short time-out that
  // reports a missing rank begins only then.
  static std::vector<ncclComm_t> joined(int ranks) {
    const ncclUniqueId id = new_id();
    std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
    on_ranks(ranks, [&](int r) { comms[static_cast<size_t>(r)] = NcclRank(r, ranks).join(id); });
    emulated::options().time_out = kTimeOut;
    return comms;
  }
  static constexpr std::chrono::milliseconds kTimeOut{500};
};

TEST_F(NcclTest, ACollectiveWithoutAPeerHangsUntilItIsAborted) {
  const std::vector<ncclComm_t> comms = joined(2);
  on_ranks(2, [&](int r) {
    const NcclRank rank(r, 2);
    const ncclComm_t comm = comms[static_cast<size_t>(r)];
    if (r == 0) {
      EXPECT_EQ(rank.sum(comm), ncclSuccess);
      std::this_thread::sleep_for(2 * kTimeOut);
      EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
      ncclResult_t state = ncclSystemError;
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      EXPECT_EQ(state, ncclSuccess) << "NCCL itself has no time-out";
    }
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess) << "the device is as good as before";
  });
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("collective time-out: ncclAllReduce number 0"),
                                         HasSubstr("rank 0 waits; missing after 500 ms: rank 1"))));
}

TEST_F(NcclTest, WhatAnAbortedCollectiveShouldHaveWrittenIsUndefined) {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    const NcclRank rank(r, 2);
    const ncclComm_t comm = rank.join(id);
    if (r == 0) {
      EXPECT_EQ(rank.sum(comm), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    std::array<float, kCount> host;
    if (r == 0) {
      EXPECT_EQ(cudaMemcpyAsync(host.data(), rank.data, kNcclBytes, cudaMemcpyDeviceToHost, rank.stream),
                cudaSuccess);
    }
  });
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("uninitialized read: copy device to host on rank 0 stream 0 reads "
                                    "bytes [0, 64) of cudaMalloc #0 of rank 0")));
}

TEST_F(NcclTest, AnAbortDoesNotReachThePeers) {
  const std::vector<ncclComm_t> comms = joined(3);
  on_ranks(3, [&](int r) {
    const NcclRank rank(r, 3);
    const ncclComm_t comm = comms[static_cast<size_t>(r)];
    if (r == 1) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    EXPECT_EQ(rank.sum(comm), ncclSuccess);
    std::this_thread::sleep_for(2 * kTimeOut);
    EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  EXPECT_THAT(found(), ElementsAre(HasSubstr("rank 0, rank 2 waits; missing after 500 ms: rank 1 (which has "
                                             "aborted the communicator)")));
}

TEST_F(NcclTest, AProcessInWhichNobodyAbortsEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        emulated::options().time_out = std::chrono::milliseconds(50);
        emulated::options().hang = std::chrono::milliseconds(100);
        const ncclUniqueId id = new_id();
        on_ranks(2, [&](int r) {
          const NcclRank rank(r, 2);
          const ncclComm_t comm = rank.join(id);
          if (r == 0) rank.sum(comm);
          EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
          std::this_thread::sleep_for(std::chrono::seconds(60));
        });
      },
      ::testing::ExitedWithCode(emulated::kExitCode), "nobody aborts ncclAllReduce number 0 of communicator");
}

TEST_F(NcclTest, ARevokedCommunicatorEndsItsCollectivesAndTakesNoMore) {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    const NcclRank rank(r, 2);
    const ncclComm_t comm = rank.join(id);
    if (r == 0) {
      EXPECT_EQ(rank.sum(comm), ncclSuccess);
    }
    EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    EXPECT_EQ(rank.sum(comm), ncclInvalidUsage);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(NcclTest, UseAfterTheEndIsFound) {
  const NcclRank rank(0, 1);
  const ncclComm_t comm = rank.join(new_id()), other = rank.join(new_id());
  EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ncclAllReduce on rank 0 of communicator")));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the communicator has been destroyed")));
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ncclCommDestroy on rank 0")));
  EXPECT_EQ(ncclCommAbort(other), ncclSuccess);
  EXPECT_EQ(rank.sum(other), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the communicator has been aborted")));
  EXPECT_EQ(ncclCommAbort(other), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ncclCommAbort of a communicator that is no more")));
}

TEST_F(NcclTest, NonblockingCommunicatorsLiveAsNcclDescribes) {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    const NcclRank rank(r, 2);
    ncclConfig_t config = nonblocking();
    ncclComm_t comm = nullptr, part = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, r, &config), ncclInProgress);
    ASSERT_NE(comm, nullptr);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_EQ(rank.sum(comm), ncclInProgress);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_EQ(ncclCommSplit(comm, 0, r, &part, nullptr), ncclInProgress);
    EXPECT_EQ(part, nullptr) << "until the split is complete";
    EXPECT_EQ(settle(comm), ncclSuccess);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(rank.data, kCount, ncclFloat32, 1 - r, part, rank.stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(rank.data + kCount / 2, 0, ncclFloat32, 1 - r, part, rank.stream), ncclSuccess);
    EXPECT_EQ(rank.sum(comm), ncclSuccess);
    float* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, kNcclBytes), cudaSuccess);
    EXPECT_EQ(ncclRecv(more, kCount, ncclFloat32, 1 - r, part, rank.stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    EXPECT_EQ(settle(comm), ncclSuccess);
    EXPECT_EQ(settle(part), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    EXPECT_EQ(cudaFree(more), cudaSuccess);
    for (const ncclComm_t each : {part, comm}) {
      EXPECT_EQ(ncclCommFinalize(each), ncclInProgress);
      EXPECT_EQ(settle(each), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(each), ncclSuccess);
    }
  });
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(NcclTest, UsingACommunicatorThatIsStillInProgressIsFound) {
  const NcclRank rank(0, 1);
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  EXPECT_EQ(rank.sum(comm), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("invalid use: ncclAllReduce on rank 0 of communicator"),
                                         HasSubstr("the call before it is still in progress"))));
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ncclCommDestroy on rank 0 of communicator")));
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(NcclTest, UsingAStreamBeforeItsCollectiveIsLaunchedIsFound) {
  const NcclRank rank(0, 1);
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclInProgress);
  EXPECT_EQ(cudaMemsetAsync(rank.data, 0, kNcclBytes, rank.stream), cudaSuccess);
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr("memset on rank 0 stream 0 comes before ncclAllReduce of rank 0"),
                                HasSubstr("ncclCommGetAsyncError has not said so yet"))));
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(cudaMemsetAsync(rank.data, 0, kNcclBytes, rank.stream), cudaSuccess);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(NcclTest, ANonblockingStartWithoutAPeerStaysInProgressUntilItIsAborted) {
  emulated::options().time_out = kTimeOut;
  const NcclRank rank(0, 1);
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  const auto deadline = std::chrono::steady_clock::now() + 2 * kTimeOut;
  ncclResult_t state = ncclSuccess;
  while (std::chrono::steady_clock::now() < deadline) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInProgress);
  }
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("collective time-out: ncclCommInitRank of communicator"),
                                         HasSubstr("missing after 500 ms: rank 1"))));
}

TEST_F(NcclTest, AConfigurationWithoutItsInitializerIsRefused) {
  ncclConfig_t config = {};
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("does not begin with NCCL_CONFIG_INITIALIZER")));
}

TEST_F(NcclTest, BlockingAndNonblockingCommunicatorsInOneGroupAreRefused) {
  const NcclRank rank(0, 1);
  ncclConfig_t config = nonblocking();
  const ncclComm_t blocking = rank.join(new_id());
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(rank.sum(blocking), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("has blocking and nonblocking communicators")));
}

TEST_F(NcclTest, GroupsNestAndAreLaunchedByTheLastEnd) {
  const NcclRank rank(0, 1);
  const ncclComm_t comm = rank.join(new_id());
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(rank.sum(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr("cudaStreamSynchronize on rank 0 stream 0 comes before "
                                                   "ncclAllReduce of rank 0 of communicator"),
                                         HasSubstr("is launched by ncclGroupEnd"))));
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ncclGroupEnd without ncclGroupStart")));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(NcclTest, AnErrorWithinAGroupIsTheGroupsAndNothingIsLaunched) {
  const ncclUniqueId id = new_id();
  on_ranks(2, [&](int r) {
    const NcclRank rank(r, 2);
    const ncclComm_t comm = rank.join(id);
    if (r == 0) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclBroadcast(rank.data, rank.data, kCount, ncclFloat32, 0, comm, rank.stream), ncclSuccess);
      EXPECT_EQ(ncclSend(rank.data, kCount, ncclFloat32, 7, comm, rank.stream), ncclInvalidArgument);
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    }
    EXPECT_EQ(rank.sum(comm), ncclSuccess);  // the first collective of both ranks
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_THAT(found(), ElementsAre(HasSubstr("there is no rank 7")));
}

// ------------------------------------------------------------------------------- order over communicators

// Every rank runs `calls(rank, comms)`, with `worlds` communicators of all ranks and a stream for each.
std::vector<std::string> found_in_order(
    int ranks, int worlds,
    const std::function<void(const NcclRank&, const std::vector<ncclComm_t>&,
                             const std::vector<cudaStream_t>&)>& calls) {
  std::vector<ncclUniqueId> ids;
  for (int k = 0; k < worlds; ++k) ids.push_back(new_id());
  on_ranks(ranks, [&](int r) {
    const NcclRank rank(r, ranks);
    std::vector<ncclComm_t> comms;
    std::vector<cudaStream_t> streams(static_cast<size_t>(worlds));
    for (const ncclUniqueId& id : ids) comms.push_back(rank.join(id));
    for (cudaStream_t& stream : streams)
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    calls(rank, comms, streams);
    for (const cudaStream_t stream : streams) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  std::vector<std::string> texts;
  for (const Finding& finding : emulated::take_findings())
    texts.push_back(std::string(emulated::name_of(finding.kind)) + ": " + finding.text);
  return texts;
}

void sum_with(const NcclRank& rank, ncclComm_t comm, cudaStream_t stream) {
  float* data = nullptr;  // of its own: this is about order only
  EXPECT_EQ(cudaMalloc(&data, kNcclBytes), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(data, 0, kNcclBytes, stream), cudaSuccess);
  EXPECT_EQ(ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, stream), ncclSuccess) << rank.rank;
}

TEST_F(NcclTest, CommunicatorsInTheSameOrderReportNothing) {
  EXPECT_THAT(found_in_order(3, 2,
                             [](const NcclRank& rank, const auto& comms, const auto& streams) {
                               for (const size_t k : {0, 1, 1, 0}) sum_with(rank, comms[k], streams[k]);
                             }),
              IsEmpty());
}

TEST_F(NcclTest, TwoCommunicatorsInDifferentOrdersAreFoundEvenIfTheyPass) {
  for (const int delay : {0, 300}) {
    emulated::options().max_delay = std::chrono::microseconds(delay);
    const auto texts = found_in_order(2, 2, [](const NcclRank& rank, const auto& comms, const auto& streams) {
      const size_t first = rank.rank == 0 ? 0 : 1;
      sum_with(rank, comms[first], streams[first]);
      sum_with(rank, comms[1 - first], streams[1 - first]);
    });
    ASSERT_EQ(texts.size(), 1u);
    EXPECT_THAT(texts[0],
                ::testing::MatchesRegex(
                    "collective order: a deadlock, if the device runs collectives in the order of their "
                    "calls: rank 0 calls ncclAllReduce number 0 of communicator [0-9]+ before "
                    "ncclAllReduce number 0 of communicator [0-9]+, rank 1 calls ncclAllReduce number 0 "
                    "of communicator [0-9]+ before ncclAllReduce number 0 of communicator [0-9]+"));
  }
}

TEST_F(NcclTest, ACircleOverThreeCommunicatorsIsFound) {
  const auto texts = found_in_order(3, 3, [](const NcclRank& rank, const auto& comms, const auto& streams) {
    // NcclRank r: r, then r + 1; no two of them have the same two in opposite orders.
    const size_t r = static_cast<size_t>(rank.rank);
    for (size_t k = 0; k < 3; ++k) sum_with(rank, comms[(r + k) % 3], streams[(r + k) % 3]);
  });
  EXPECT_THAT(texts, ElementsAre(AllOf(HasSubstr("collective order"), HasSubstr("rank 0 calls"),
                                       HasSubstr("rank 1 calls"))));
}

TEST_F(NcclTest, DifferentOrdersWithinAGroupAreFound) {
  const auto texts = found_in_order(2, 2, [](const NcclRank& rank, const auto& comms, const auto& streams) {
    const size_t first = rank.rank == 0 ? 0 : 1;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (const size_t k : {first, 1 - first})
      EXPECT_EQ(ncclBroadcast(rank.data, rank.data, kCount, ncclFloat32, 0, comms[k], streams[0]),
                ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  });
  EXPECT_THAT(texts, ElementsAre(HasSubstr("collective order: a deadlock")));
}

TEST_F(NcclTest, TransfersOfOneGroupHaveNoOrder) {
  EXPECT_THAT(found_in_order(
                  2, 1,
                  [](const NcclRank& rank, const auto& comms, const auto& streams) {
                    float* more = nullptr;
                    EXPECT_EQ(cudaMalloc(&more, kNcclBytes), cudaSuccess);
                    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
                    EXPECT_EQ(ncclSend(rank.data, kCount, ncclFloat32, 1 - rank.rank, comms[0], streams[0]),
                              ncclSuccess);
                    EXPECT_EQ(ncclRecv(more, kCount, ncclFloat32, 1 - rank.rank, comms[0], streams[0]),
                              ncclSuccess);
                    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
                  }),
              IsEmpty());
}

}  // namespace
}  // namespace braid::test
