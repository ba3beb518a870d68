// Communicators whose ranks are processes: what an end, or a loss, says to the others.
#include <signal.h>
#include <unistd.h>

#include "tests/emulated/nccl_process_work.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NcclProcessEnds : public EmulatedTest {};

const RegisteredBody ends_early("ends early", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work(1 << 20);
  if (process.rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(work.sum_of(1, comm), 3);
  if (process.rank == 0) {  // while the others may not have read what it has sent
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    process.tell("ended");
    return;
  }
  EXPECT_EQ(process.hear(), "ended");
  EXPECT_EQ(watch(comm, std::chrono::milliseconds(100)), ncclSuccess)
      << "it has destroyed its end: nobody is lost";
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

TEST_F(NcclProcessEnds, ARankMayEndBeforeItsPeers) {
  for (int i = 0; i < 5 && !HasFailure(); ++i) expect_good(run_rank_processes(ends_early, 3));
}

// Rank 1 has called, and is stopped before it has read what rank 0 sends, which ends as soon as it is done.
const RegisteredBody ends_without_farewell("ends without farewell", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work(1 << 20);
  if (process.rank == 1) {
    EXPECT_EQ(work.sum(comm), ncclSuccess);
    stand_still(process);
    EXPECT_EQ(cudaStreamSynchronize(work.stream), cudaSuccess);
    EXPECT_EQ(watch(comm, kInTime), ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    return;
  }
  const pid_t peer = std::stoi(process.hear());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  wake(peer, std::chrono::milliseconds(200));
  EXPECT_EQ(work.sum(comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(work.stream), cudaSuccess);
  if (!::testing::Test::HasFailure()) _exit(0);
});

TEST_F(NcclProcessEnds, WhatARankHasSentArrivesEvenIfItIsLost) {
  expect_good(run_rank_processes(ends_without_farewell, 2));
}

// While rank 2's part in the split is on its way to rank 1, after much other data, the half of rank 0 works
// already.
const RegisteredBody early_child("early child", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work(4 << 20), small;
  ncclComm_t part = nullptr;
  if (process.rank == 2) {
    EXPECT_EQ(ncclSend(work.data, work.count, ncclFloat32, 1, comm, work.stream), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(ncclCommSplit(comm, process.rank == 2 ? 1 : 0, process.rank, &part, nullptr), ncclSuccess);
  EXPECT_EQ(small.sum_of(1, part), process.rank == 2 ? 1 : 2);
  if (process.rank == 1) {
    EXPECT_EQ(ncclRecv(work.data, work.count, ncclFloat32, 2, comm, work.stream), ncclSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(work.stream), cudaSuccess);
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

TEST_F(NcclProcessEnds, MessagesMayComeBeforeTheirCommunicator) {
  for (int i = 0; i < 3 && !HasFailure(); ++i) expect_good(run_rank_processes(early_child, 3));
}

const RegisteredBody gives_up("gives up", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work;
  emulated::options().time_out = std::chrono::milliseconds(100);
  if (process.rank == 1) {
    EXPECT_EQ(work.sum(comm), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(process.argument == "abort" ? ncclCommAbort(comm) : ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT),
              ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(work.stream), cudaSuccess);
    process.tell("given up");
    EXPECT_EQ(process.hear(), "seen");
    return;
  }
  EXPECT_EQ(process.hear(), "given up");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(work.sum(comm), ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(cudaStreamQuery(work.stream), cudaErrorNotReady);
  EXPECT_EQ(state_of(comm), ncclSuccess);
  report_findings(process);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(work.stream), cudaSuccess);
  process.tell("seen");
});

TEST_F(NcclProcessEnds, AnAbortDoesNotReachThePeers) {
  for (const std::string how : {"abort", "revoke"}) {
    const auto outcomes = run_rank_processes(gives_up, 2, how);
    expect_good(outcomes);
    EXPECT_THAT(
        outcomes[0].reports,
        ElementsAre(
            "collective time-out: ncclAllReduce number 0 of communicator 0: rank 0 waits; missing after "
            "100 ms: rank 1 (which has " +
            how + (how == "abort" ? "ed" : "d") + " the communicator)"));
  }
}

// Rank 0 learns of the end of rank 2, which has taken part in the split, before rank 1 comes to it.
const RegisteredBody goes_on("goes on", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  ncclComm_t part = nullptr;
  const auto split = [&] {
    EXPECT_EQ(cudaSetDevice(process.rank), cudaSuccess);
    EXPECT_EQ(ncclCommSplit(comm, process.rank == 2 ? 1 : 0, process.rank, &part, nullptr), ncclSuccess);
  };
  const Work large(4 << 20);
  if (process.rank == 0) {
    std::thread splitting(split);
    stand_still(process);
    splitting.join();
  } else {
    const pid_t still = std::stoi(process.hear());
    if (process.rank == 1) {
      EXPECT_EQ(ncclSend(large.data, large.count, ncclFloat32, 0, comm, large.stream), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      wake(still, std::chrono::milliseconds(200));
    }
    split();
  }
  if (process.rank == 2) raise(SIGKILL);
  EXPECT_EQ(watch(comm, kInTime), ncclRemoteError);
  // A group fails as a whole: nothing of it is launched.
  const Work work;
  if (process.rank == 0) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclBroadcast(work.data, work.data, 4, ncclFloat32, 0, part, work.stream), ncclSuccess);
    EXPECT_EQ(work.sum(comm), ncclRemoteError);
    EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  }
  EXPECT_EQ(work.sum_of(1, part), 2);
  EXPECT_EQ(state_of(part), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
});

TEST_F(NcclProcessEnds, ACommunicatorWithoutTheLostRankGoesOn) {
  expect_good(run_rank_processes(goes_on, 3), {2});
}

const RegisteredBody killed_before_any_call("killed before any call", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  if (process.rank == 1 && process.argument == "with a child") {
    // It must not keep its parent's connections open.
    if (fork() == 0) {
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      close(STDERR_FILENO);
      alarm(5);
      for (;;) pause();
    }
  }
  if (process.rank == 1) raise(SIGKILL);
  EXPECT_EQ(watch(comm, std::chrono::seconds(3)), ncclRemoteError);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
});

TEST_F(NcclProcessEnds, ALostRankIsNoticedByThoseWhoOnlyLook) {
  expect_good(run_rank_processes(killed_before_any_call, 3), {1});
}

TEST_F(NcclProcessEnds, ALostRankIsNoticedEvenIfItsChildLives) {
  BRAID_NEEDS_OBSERVED_ACCESSES();  // the thread sanitizer's runtime does not outlive such a fork
  expect_good(run_rank_processes(killed_before_any_call, 3, "with a child"), {1});
}

// Rank 2 learns of it before it knows where the ranks are: that is on its way behind what rank 0 sends.
const RegisteredBody device_fails("device fails", [](const RankProcess& process) {
  const ncclComm_t first = join(process.share_id(), process.rank, process.ranks);
  const ncclUniqueId id = process.share_id();
  const Work work, large(4 << 20);
  ncclComm_t comm = nullptr;
  if (process.rank == 2) {
    std::thread joining([&] { comm = join(id, process.rank, process.ranks); });
    stand_still(process);
    joining.join();
    process.tell("awake");
  } else {
    const pid_t still = std::stoi(process.hear());
    if (process.rank == 0) {
      EXPECT_EQ(ncclSend(large.data, large.count, ncclFloat32, 2, first, large.stream), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (process.rank == 1) wake(still, std::chrono::milliseconds(200));
    comm = join(id, process.rank, process.ranks);
  }
  std::vector<float> host(16);
  const bool faulty = process.rank == 1;
  float* const data = faulty ? host.data() : work.data;  // not device memory
  const ncclResult_t called = ncclAllReduce(data, data, 16, ncclFloat32, ncclSum, comm, work.stream);
  EXPECT_TRUE(called == ncclSuccess || (!faulty && called == ncclInvalidUsage)) << called;
  EXPECT_EQ(watch(comm, kInTime), ncclInvalidArgument);
  process.report(ncclGetLastError(comm));
  EXPECT_THAT(take_texts(), testing::SizeIs(faulty ? 1 : 0));
  if (faulty) {
    EXPECT_EQ(process.hear(), "awake");
  }
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(first), ncclSuccess);
});

TEST_F(NcclProcessEnds, AFaultOfARankIsAnErrorOfAll) {
  const auto outcomes = run_rank_processes(device_fails, 3);
  expect_good(outcomes);
  for (const RankOutcome& outcome : outcomes)
    EXPECT_THAT(
        outcome.reports,
        ElementsAre(HasSubstr("ncclAllReduce on rank 1 stream 0: the send buffer is not device memory")));
}

}  // namespace
}  // namespace braid::test
