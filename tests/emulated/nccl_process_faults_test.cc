// Ranks as processes, one of which is killed, stopped, stays away or disagrees. Calls that would hang in NCCL
// hang here, until each rank gives up by itself; the lost rank is known.
#include <signal.h>
#include <unistd.h>

#include <random>
#include <sstream>
#include <thread>

#include "tests/emulated/drawn_collective.h"
#include "tests/emulated/rank_processes.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStall{60};  // after which a survivor gives up
constexpr std::chrono::seconds kInTime{20};      // what must not hang ends earlier, also on a busy machine

enum class Fault { kKilled, kStopped, kAbsent, kDisagrees };
constexpr int kFaults = 4;

struct Case {
  int kind, fault, victim, blocking;
  unsigned seed;

  std::string text() const {
    std::ostringstream out;
    out << kind << ' ' << fault << ' ' << victim << ' ' << blocking << ' ' << seed;
    return out.str();
  }
  static Case of(const std::string& text) {
    Case c{};
    std::istringstream(text) >> c.kind >> c.fault >> c.victim >> c.blocking >> c.seed;
    return c;
  }
};

// One rank's communicator and memory.
struct Rank {
  const RankProcess& process;
  bool blocking;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float *send = nullptr, *recv = nullptr;

  Rank(const RankProcess& process, bool blocking, size_t elements) : process(process), blocking(blocking) {
    EXPECT_EQ(cudaSetDevice(process.rank), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&send, elements * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&recv, elements * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(send, 0, elements * sizeof(float), stream), cudaSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    const ncclUniqueId id = process.share_id();
    EXPECT_EQ(ncclCommInitRankConfig(&comm, process.ranks, id, process.rank, &config),
              blocking ? ncclSuccess : ncclInProgress);
    EXPECT_EQ(settle(), ncclSuccess);
  }
  ncclResult_t state() const {
    ncclResult_t now = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &now), ncclSuccess);
    return now;
  }
  // Returns the state once nothing is in progress any more.
  ncclResult_t settle() const {
    ncclResult_t now = ncclInProgress;
    for (const auto begin = Clock::now(); now == ncclInProgress && Clock::now() - begin < kInTime;)
      now = state();
    return now;
  }
  // False: another rank is lost already, or two others disagree.
  bool run(const Draw& d) const {
    const ncclResult_t result = launch(d, send, recv, ncclFloat32, comm, process.ranks, stream);
    if (result == ncclRemoteError || result == ncclInvalidUsage) return false;
    EXPECT_EQ(result, blocking ? ncclSuccess : ncclInProgress);
    settle();
    return true;
  }
  // Polls until the stream is done, the communicator has an error, or `limit` is over.
  cudaError_t watch(Clock::duration limit, ncclResult_t* error) const {
    const auto begin = Clock::now();
    for (;;) {
      const cudaError_t query = cudaStreamQuery(stream);
      *error = state();
      if (query != cudaErrorNotReady || (*error != ncclSuccess && *error != ncclInProgress) ||
          Clock::now() - begin > limit)
        return query;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Gives up; the stream ends, and the device is as good as before.
  void abort() const {
    const auto begin = Clock::now();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_LT(Clock::now() - begin, kInTime);
  }
};

// Returns the call that the disagreeing rank makes instead.
Draw other(const Draw& d, std::mt19937& random) {
  Draw other = d;
  const bool reduces =
      d.kind == Kind::kAllReduce || d.kind == Kind::kReduce || d.kind == Kind::kReduceScatter;
  const bool rooted = d.kind == Kind::kReduce || d.kind == Kind::kBroadcast;
  for (;;) {
    switch (random() % 4) {
      case 0:
        other.count = d.count / 2;
        return other;
      case 1:
        if (!reduces) continue;
        other.op = ncclMax;
        return other;
      case 2:
        if (!rooted) continue;
        other.root = 1 - d.root;
        return other;
      case 3:
        if (d.kind == Kind::kTransfers) continue;
        other.kind = static_cast<Kind>((static_cast<int>(d.kind) + 1) % (kKinds - 1));
        return other;
    }
  }
}

void run_fault(const RankProcess& process) {
  const Case c = Case::of(process.argument);
  const Fault fault = static_cast<Fault>(c.fault);
  std::mt19937 random(c.seed);
  // Sometimes more than the kernel keeps for a process that does not read.
  const Draw d{static_cast<Kind>(c.kind), random() % 4 == 0 ? 150000u : 500u, ncclSum,
               static_cast<int>(random() % 2)};
  const Draw disagreeing = other(d, random);
  const Rank rank(process, c.blocking != 0, d.count * static_cast<size_t>(process.ranks));
  EXPECT_TRUE(rank.run({Kind::kAllReduce, 10}));
  ncclResult_t error = ncclSuccess;
  EXPECT_EQ(rank.watch(kInTime, &error), cudaSuccess);
  const bool victim = process.rank == c.victim;
  if (!victim) process.tell("ready");
  for (int r = 1; victim && r < process.ranks; ++r) EXPECT_EQ(process.hear(), "ready");
  if (victim && fault == Fault::kKilled) raise(SIGKILL);
  if (victim && fault == Fault::kStopped) raise(SIGSTOP);
  if (victim && fault == Fault::kAbsent) {
    for (int r = 1; r < process.ranks; ++r) EXPECT_EQ(process.hear(), "given up");
    return rank.abort();
  }
  const bool called = rank.run(victim ? disagreeing : d);
  EXPECT_TRUE(called || fault == Fault::kKilled ||
              (fault == Fault::kDisagrees && d.kind == Kind::kTransfers));
  const cudaError_t query = rank.watch(
      fault == Fault::kKilled || fault == Fault::kDisagrees ? Clock::duration(kInTime) : kStall, &error);
  const std::string why = ncclGetLastError(rank.comm);
  switch (fault) {
    case Fault::kKilled:
      EXPECT_EQ(error, ncclRemoteError);
      EXPECT_EQ(query, called ? cudaErrorNotReady : cudaSuccess)
          << "NCCL's kernels wait until somebody aborts";
      process.report(why);
      if (rank.blocking) {
        EXPECT_EQ(launch(d, rank.send, rank.recv, ncclFloat32, rank.comm, process.ranks, rank.stream),
                  ncclRemoteError);
      }
      break;
    case Fault::kStopped:
    case Fault::kAbsent:
      EXPECT_TRUE(error == ncclSuccess || error == ncclInProgress) << error;
      EXPECT_EQ(query, cudaErrorNotReady);
      break;
    case Fault::kDisagrees:
      EXPECT_EQ(error, ncclInvalidUsage);
      if (called && rank.blocking) {
        EXPECT_NE(cudaStreamSynchronize(rank.stream), cudaSuccess);
      }
      process.report(why);
      EXPECT_THAT(emulated::take_findings(), ElementsAre(testing::Field(&Finding::text, why)));
      EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
      return;
  }
  rank.abort();
  if (fault == Fault::kAbsent) process.tell("given up");
}
const RegisteredBody fault_body("fault", run_fault);

class NcclProcessFaults : public EmulatedTest {};

TEST_F(NcclProcessFaults, EachCollectiveOutlivesEachFault) {
  const auto first = static_cast<unsigned>(first_seed());
  for (int i = 0; i < random_cases(kKinds * kFaults); ++i) {
    const unsigned seed = first + static_cast<unsigned>(i);
    const int ranks = 2 + i / kFaults % 3;
    const Case c{i / kFaults % kKinds, i % kFaults, static_cast<int>(seed % static_cast<unsigned>(ranks)),
                 static_cast<int>(seed / 2 % 2), seed};
    const Fault fault = static_cast<Fault>(c.fault);
    SCOPED_TRACE(std::to_string(ranks) + " ranks: " + c.text());
    const bool ends = fault == Fault::kAbsent || fault == Fault::kDisagrees;
    const auto outcomes = run_rank_processes(
        fault_body, ranks, c.text(), fault == Fault::kStopped ? std::vector{c.victim} : std::vector<int>{});
    expect_good(outcomes, ends ? std::vector<int>{} : std::vector{c.victim});
    for (int r = 0; r < ranks; ++r) {
      const auto& reports = outcomes[static_cast<size_t>(r)].reports;
      if (fault == Fault::kKilled && r != c.victim) {
        EXPECT_THAT(reports, ElementsAre("the process of rank " + std::to_string(c.victim) +
                                         " of communicator 0 has ended"));
      }
      // All say the same, which names both sides.
      if (fault == Fault::kDisagrees) {
        const std::string where =
            c.kind == static_cast<int>(Kind::kTransfers) ? "call number 0" : "call number 1";
        EXPECT_THAT(reports, ElementsAre(AllOf(HasSubstr(where + " of communicator 0 differs: rank "),
                                               HasSubstr(" calls nccl"))));
        if (c.kind != static_cast<int>(Kind::kTransfers)) {
          EXPECT_EQ(reports, outcomes[0].reports);
        }
      }
    }
    if (HasFailure()) return;
  }
}

// Kills a rank at any time while all work, once every rank has made its communicator, for which it needs the
// others.
void run_until_killed(const RankProcess& process) {
  std::istringstream argument(process.argument);
  int victim = 0, microseconds = 0;
  argument >> victim >> microseconds;
  std::mt19937 random(static_cast<unsigned>(microseconds));
  const Rank rank(process, true, 40000u * static_cast<size_t>(process.ranks));
  ncclResult_t error = ncclSuccess;
  bool together = false;
  for (const auto begin = Clock::now(); error == ncclSuccess && Clock::now() - begin < kInTime;) {
    const Kind kind = together ? static_cast<Kind>(random() % kKinds) : Kind::kAllReduce;
    const Draw d{kind, 1 + random() % 40000, ncclSum, 0};
    const ncclResult_t result =
        launch(d, rank.send, rank.recv, ncclFloat32, rank.comm, process.ranks, rank.stream);
    EXPECT_THAT(result, testing::AnyOf(ncclSuccess, ncclRemoteError));
    rank.watch(kInTime, &error);
    if (!together && process.rank == victim)
      std::thread([microseconds] {
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        raise(SIGKILL);
      }).detach();
    together = true;
  }
  EXPECT_EQ(error, ncclRemoteError);
  rank.abort();
}
const RegisteredBody until_killed_body("until killed", run_until_killed);

TEST_F(NcclProcessFaults, ARankIsKilledInTheMiddle) {
  std::mt19937 random(static_cast<unsigned>(first_seed()));
  for (int i = 0; i < random_cases(8); ++i) {
    const int ranks = 2 + i % 3, victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::string argument = std::to_string(victim) + " " + std::to_string(random() % 60000);
    SCOPED_TRACE(std::to_string(ranks) + " ranks: " + argument);
    const auto outcomes = run_rank_processes(until_killed_body, ranks, argument);
    expect_good(outcomes, {victim});
    EXPECT_EQ(outcomes[static_cast<size_t>(victim)].signal, SIGKILL);
    if (HasFailure()) return;
  }
}

void run_without_abort(const RankProcess& process) {
  const Rank rank(process, true, 10);
  if (process.rank == 1) raise(SIGSTOP);
  emulated::options().time_out = std::chrono::milliseconds(50);
  emulated::options().hang = std::chrono::milliseconds(100);
  emulated::options().print_findings = true;
  EXPECT_TRUE(rank.run({Kind::kAllReduce, 10}));
  EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
}
const RegisteredBody without_abort_body("without abort", run_without_abort);

TEST_F(NcclProcessFaults, AProcessThatDoesNotAbortEnds) {
  const auto outcomes = run_rank_processes(without_abort_body, 2, "", {1});
  EXPECT_EQ(outcomes[0].code, emulated::kExitCode);
  EXPECT_THAT(outcomes[0].output,
              HasSubstr("ncclAllReduce number 0 of communicator 0: rank 0 waits; missing after 50 ms: rank 1 "
                        "(which has called nothing)"));
}

}  // namespace
}  // namespace braid::test
