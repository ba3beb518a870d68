// Communicators whose ranks are processes: how they are made, and which processes may join.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/emulated/nccl_process_work.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;

class NcclProcessLife : public EmulatedTest {};

// ------------------------------------------------------------------------------------------------ creation

const RegisteredBody sum_by_id("sum by id", [](const RankProcess& process) {
  const ncclComm_t comm = join(id_of(process.argument), process.rank, process.ranks);
  EXPECT_EQ(Work().sum_of(static_cast<float>(process.rank + 1), comm), 6);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, TheMakerOfAnIdNeedNotBeARank) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  expect_good(run_rank_processes(sum_by_id, 3, id.internal));
}

const RegisteredBody unknown_id("unknown id", [](const RankProcess& process) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(
      ncclCommInitRank(&comm, 2, id_of("communicator 0 @00112233445566778899aabbccddeeff"), process.rank),
      ncclRemoteError);
  EXPECT_EQ(comm, nullptr);
});

TEST_F(NcclProcessLife, AnIdWhoseMakerIsGoneIsAnErrorAtOnce) {
  expect_good(run_rank_processes(unknown_id, 2));
}

const RegisteredBody threads_of_processes("threads of processes", [](const RankProcess& process) {
  const ncclUniqueId id = process.share_id(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      const int rank = 2 * process.rank + t, ranks = 2 * process.ranks;
      const ncclComm_t comm = join(id, rank, ranks);
      EXPECT_EQ(emulated::reachable_peers(comm), 2);
      EXPECT_EQ(Work().sum_of(static_cast<float>(rank + 1), comm), 21);
      // Pairs 0 5, 1 2, 3 4, over processes; then 0 1, 2 3, 4 5, within.
      for (const bool across : {true, false}) {
        const int color = across ? (rank + 1) / 2 % process.ranks : process.rank;
        ncclComm_t pair = nullptr;
        EXPECT_EQ(ncclCommSplit(comm, color, -rank, &pair, nullptr), ncclSuccess);
        EXPECT_EQ(emulated::reachable_peers(pair), across ? 1 : 2);
        const int expected = !across ? 4 * color + 1 : color == 0 ? 5 : 4 * color - 1;
        EXPECT_EQ(Work().sum_of(static_cast<float>(rank), pair), static_cast<float>(expected));
        EXPECT_EQ(ncclCommDestroy(pair), ncclSuccess);
      }
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  for (std::thread& thread : threads) thread.join();
});

TEST_F(NcclProcessLife, ProcessesMayHaveSeveralRanks) {
  expect_good(run_rank_processes(threads_of_processes, 3));
}

// Neither sanitizer's runtime survives a fork beside another thread: if that thread holds a lock of the
// allocator at that moment, the child never releases it.
#ifdef __SANITIZE_ADDRESS__
#define NEEDS_TO_FORK() GTEST_SKIP() << "the address sanitizer's allocator may be locked in the child"
#else
#define NEEDS_TO_FORK() BRAID_NEEDS_OBSERVED_ACCESSES()
#endif

const RegisteredBody forked("forked", [](const RankProcess& process) {
  const ncclUniqueId id = process.share_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const ncclComm_t comm = join(id, rank, 2);
    const bool good = Work().sum_of(static_cast<float>(rank + 1), comm) == 3;
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    _exit(good && !::testing::Test::HasFailure() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
});

TEST_F(NcclProcessLife, ForkedProcessesMayUseAnIdOfTheirParent) {
  NEEDS_TO_FORK();
  expect_good(run_rank_processes(forked, 1));
}

const RegisteredBody alone("alone", [](const RankProcess& process) {
  const ncclComm_t comm = begin_join(process.share_id(), process.rank, 2);
  EXPECT_EQ(watch(comm, std::chrono::milliseconds(100)), ncclInProgress);
  const auto begin = Clock::now();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_LT(Clock::now() - begin, kInTime);
});

TEST_F(NcclProcessLife, AStartWithoutItsPeersMayBeAborted) { expect_good(run_rank_processes(alone, 1)); }

const RegisteredBody killed_while_joining("killed while joining", [](const RankProcess& process) {
  const ncclUniqueId id = process.share_id();
  if (process.rank == 2) {
    EXPECT_EQ(process.hear(), "lost");
  }
  const ncclComm_t comm = begin_join(id, process.rank, process.ranks);
  if (process.rank == 1) {
    watch(comm, std::chrono::milliseconds(500));  // by then it has joined
    raise(SIGKILL);
  }
  EXPECT_EQ(watch(comm, kInTime), ncclRemoteError);
  process.report(ncclGetLastError(comm));
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  if (process.rank == 0) {
    process.tell("lost");
    process.hear();  // it makes the id: it stays until all have asked
  } else {
    process.tell("refused");
  }
});

TEST_F(NcclProcessLife, ARankThatIsKilledWhileItJoinsIsNamed) {
  const auto outcomes = run_rank_processes(killed_while_joining, 3);
  expect_good(outcomes, {1});
  const std::string text = "ncclCommInitRank of communicator 0: the process of rank 1 has ended";
  EXPECT_THAT(outcomes[0].reports, ElementsAre(text));
  EXPECT_THAT(outcomes[2].reports, ElementsAre(text));
}

const RegisteredBody maker_killed("maker killed", [](const RankProcess& process) {
  const ncclUniqueId id = process.share_id();
  if (process.rank == 0) {
    for (int r = 1; r < process.ranks; ++r) process.hear();
    raise(SIGKILL);
  }
  const ncclComm_t comm = begin_join(id, process.rank, process.ranks);
  process.tell("joined");
  EXPECT_EQ(watch(comm, kInTime), ncclRemoteError);
  process.report(ncclGetLastError(comm));
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, TheMakerOfTheIdIsKilledBeforeAllAreThere) {
  const auto outcomes = run_rank_processes(maker_killed, 3);
  expect_good(outcomes, {0});
  for (const int rank : {1, 2})
    EXPECT_THAT(
        outcomes[static_cast<size_t>(rank)].reports,
        ElementsAre("ncclCommInitRank of communicator 0: the process that made its ncclUniqueId has ended or "
                    "is not there"));
}

// As `rank` of `ranks` on `device`, a group of three figures per process.
const RegisteredBody join_as("join as", [](const RankProcess& process) {
  const char* const mine = process.argument.c_str() + 3 * process.rank;
  const ncclUniqueId id = process.share_id();
  EXPECT_EQ(cudaSetDevice(mine[2] - '0'), cudaSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, mine[1] - '0', id, mine[0] - '0'), ncclInvalidUsage);
  report_findings(process);
  process.tell("refused");
  if (process.rank == 0)
    for (int r = 1; r < process.ranks; ++r) process.hear();
});

TEST_F(NcclProcessLife, RanksThatCannotMakeACommunicatorAreRefusedOnAllSides) {
  const std::pair<const char*, const char*> cases[] = {
      {"020131",
       "collective mismatch: ncclCommInitRank of communicator 0: rank 0 gives 2 as the number of ranks, "
       "rank 1 gives 3"},
      {"121120", "collective mismatch: ncclCommInitRank of communicator 0: rank 1 occurs twice"},
      {"023123",
       "invalid use: communicator 0: ranks 0 and 1 are both on device 3; call cudaSetDevice before "
       "ncclCommInitRank"},
  };
  for (const auto& [argument, text] : cases) {
    const auto outcomes = run_rank_processes(join_as, 2, argument);
    expect_good(outcomes);
    for (const RankOutcome& outcome : outcomes) EXPECT_THAT(outcome.reports, ElementsAre(text));
  }
}

const RegisteredBody two_machines("two machines", [](const RankProcess& process) {
  setenv("NCCL_HOSTID", std::to_string(process.rank).c_str(), 1);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, process.ranks, process.share_id(), process.rank), ncclSuccess);
  EXPECT_EQ(Work().sum_of(1, comm), 2);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, ProcessesThatSayTheyAreOnTwoMachinesMayShareADevice) {
  expect_good(run_rank_processes(two_machines, 2));
}

// ------------------------------------------------------------------------------------------------ strangers

// Null: it could not connect.
bool refused_as_user(const std::string& address, uid_t user, const std::string& greeting) {
  const pid_t child = fork();
  if (child == 0) {
    if (user != 0 && setresuid(user, user, user) != 0) _exit(2);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = "braid-nccl-" + address;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (connect(fd, reinterpret_cast<sockaddr*>(&name), length) != 0) _exit(3);
    [[maybe_unused]] const ssize_t sent = send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    char byte;
    _exit(read(fd, &byte, 1) <= 0 ? 0 : 1);  // closed by the other side
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

const RegisteredBody strangers("strangers", [](const RankProcess& process) {
  const ncclUniqueId id = process.share_id();
  const std::string text = id.internal, address = text.substr(text.find('@') + 1);
  if (process.rank == 0) {
    if (geteuid() == 0) {
      const uint64_t length = 13;
      const std::string hello = "braid-nccl-1 ";
      EXPECT_TRUE(
          refused_as_user(address, 65534, std::string(reinterpret_cast<const char*>(&length), 8) + hello));
    }
    EXPECT_TRUE(refused_as_user(address, 0, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    EXPECT_TRUE(refused_as_user(address, 0, std::string(200, '\xff')));
    EXPECT_TRUE(refused_as_user(address, 0, std::string("\x03\0\0\0\0\0\0\0abc", 11)));
    process.tell("now");
  } else {
    EXPECT_EQ(process.hear(), "now");
  }
  const ncclComm_t comm = join(id, process.rank, process.ranks);
  EXPECT_EQ(Work().sum_of(1, comm), 2);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, OtherUsersAndOtherProgramsCannotInterfere) {
  NEEDS_TO_FORK();
  expect_good(run_rank_processes(strangers, 2));
}

// ------------------------------------------------------------------------------------------------- windows

const RegisteredBody windows("windows", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work(4096);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(
      ncclCommWindowRegister(comm, work.data, work.count * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC),
      ncclSuccess);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(work.sum_of(1, comm), 2);
  EXPECT_EQ(emulated::reachable_peers(comm), 1);
  EXPECT_EQ(emulated::peer_pointer(window, 64, process.rank), work.data + 16);
  EXPECT_EQ(emulated::peer_pointer(window, 64, 1 - process.rank), nullptr);
  EXPECT_THAT(take_texts(), ElementsAre("invalid use: peer_pointer: rank " +
                                        std::to_string(1 - process.rank) + " is in another process"));
  float* const data = work.data + 32 * process.rank;
  EXPECT_EQ(ncclAllReduce(data, data, 16, ncclFloat32, ncclSum, comm, work.stream), ncclSuccess);
  EXPECT_EQ(watch(comm, kInTime), ncclInvalidUsage);
  report_findings(process);
  EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, WindowsAreSymmetricButNotReachable) {
  const auto outcomes = run_rank_processes(windows, 2);
  expect_good(outcomes);
  for (const RankOutcome& outcome : outcomes)
    EXPECT_THAT(
        outcome.reports,
        ElementsAre("registration: ncclAllReduce number 1 of communicator 0: the send buffer of rank 0 is at "
                    "offset 0, that of rank 1 is at offset 128; in a symmetric window it must be the same on "
                    "all ranks"));
}

const RegisteredBody different_host_calls("different host calls", [](const RankProcess& process) {
  const ncclComm_t comm = join(process.share_id(), process.rank, process.ranks);
  const Work work;
  if (process.rank == 0) {
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclInvalidUsage);
  } else {
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(comm, work.data, 64, &window, NCCL_WIN_COLL_SYMMETRIC),
              ncclInvalidUsage);
  }
  report_findings(process);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
});

TEST_F(NcclProcessLife, DifferentCallsOnTheHostAreFoundOnAllSides) {
  const auto outcomes = run_rank_processes(different_host_calls, 2);
  expect_good(outcomes);
  for (const RankOutcome& outcome : outcomes)
    EXPECT_THAT(outcome.reports,
                ElementsAre("collective mismatch: communicator 0: rank 0 calls ncclCommSplit, rank 1 calls "
                            "ncclCommWindowRegister"));
}

}  // namespace
}  // namespace braid::test
