// Communicators whose ranks are processes: collectives against an oracle, over several communicators and
// streams.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

#include "runtime/hash.h"
#include "tests/emulated/drawn_collective.h"
#include "tests/emulated/rank_processes.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;

// ------------------------------------------------------------------------------------------------- oracle

// Returns the value that rank `rank` sends at element `i`: small integers, so the order of sums does not
// matter.
double element(unsigned seed, int rank, size_t i) {
  return static_cast<double>(
             (seed * 31u + static_cast<unsigned>(rank) * 17u + static_cast<unsigned>(i) * 7u) % 23u) -
         11;
}

double reduced(const Draw& d, unsigned seed, int ranks, size_t i) {
  double value = element(seed, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const double other = element(seed, r, i);
    value = d.op == ncclMax   ? std::max(value, other)
            : d.op == ncclMin ? std::min(value, other)
                              : value + other;
  }
  return value;
}

// Element `i` of what `rank` receives.
double expected(const Draw& d, unsigned seed, int rank, int ranks, size_t i) {
  const int from = static_cast<int>(i / d.count);
  const size_t own = static_cast<size_t>(rank) * d.count;
  switch (d.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return reduced(d, seed, ranks, i);
    case Kind::kAllGather:
      return element(seed, from, i % d.count);
    case Kind::kReduceScatter:
      return reduced(d, seed, ranks, own + i);
    case Kind::kBroadcast:
      return element(seed, d.root, i);
    case Kind::kAllToAll:
    case Kind::kTransfers:
      return element(seed, from, own + i % d.count);
  }
  return 0;
}

template <class T>
void run_drawn(const Draw& d, unsigned seed, ncclComm_t comm, cudaStream_t stream, ncclDataType_t type) {
  int rank = 0, ranks = 0;
  ASSERT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess);
  ASSERT_EQ(ncclCommCount(comm, &ranks), ncclSuccess);
  const size_t n = static_cast<size_t>(ranks), r = static_cast<size_t>(rank);
  const size_t in = sent(d, n), out = received(d, n);
  T* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, (in + out) * sizeof(T)), cudaSuccess);
  T *send = memory, *recv = memory + in;
  if (d.in_place && d.kind == Kind::kAllGather) send = recv + r * d.count;
  if (d.in_place && d.kind == Kind::kReduceScatter) recv = send + r * d.count;
  if (d.in_place && in == out && d.kind != Kind::kAllToAll && d.kind != Kind::kTransfers) recv = send;
  std::vector<T> host(in);
  for (size_t i = 0; i < in; ++i) host[i] = static_cast<T>(element(seed, rank, i));
  ASSERT_EQ(cudaMemcpyAsync(send, host.data(), in * sizeof(T), cudaMemcpyHostToDevice, stream), cudaSuccess);
  const ncclResult_t result = launch(d, send, recv, type, comm, ranks, stream);
  ASSERT_EQ(result, ncclSuccess) << ncclGetLastError(comm);
  if (d.kind != Kind::kReduce || rank == d.root) {
    std::vector<T> got(out);
    ASSERT_EQ(cudaMemcpyAsync(got.data(), recv, out * sizeof(T), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    size_t wrong = 0;
    for (size_t i = 0; i < out; ++i)
      wrong += got[i] != static_cast<T>(expected(d, seed, rank, ranks, i)) ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "kind " << static_cast<int>(d.kind) << ", count " << d.count << ", rank " << rank
                         << " of " << ranks << ", seed " << seed;
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
}

// -------------------------------------------------------------------------------------------------- bodies

// All ranks; halves; odd and even ones; all in the opposite order.
void run_random(const RankProcess& process) {
  const unsigned seed = static_cast<unsigned>(std::stoul(process.argument));
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  ASSERT_EQ(cudaSetDevice(process.rank), cudaSuccess);
  std::vector<ncclComm_t> comms(4);
  ASSERT_EQ(ncclCommInitRank(&comms[0], process.ranks, process.share_id(), process.rank), ncclSuccess);
  const int colors[] = {0, process.rank < process.ranks / 2 ? 0 : NCCL_SPLIT_NOCOLOR, process.rank % 2, 0};
  for (int k = 1; k < 4; ++k)
    ASSERT_EQ(ncclCommSplit(comms[0], colors[k], k == 3 ? -process.rank : process.rank,
                            &comms[static_cast<size_t>(k)], nullptr),
              ncclSuccess);
  std::vector<cudaStream_t> streams(2);
  for (cudaStream_t& stream : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const unsigned most = below(4) == 0 ? 200000 : 3000;
  int checked = 0;
  for (unsigned round = 0; round < 12; ++round) {
    Draw d{static_cast<Kind>(below(kKinds)), 1 + below(most)};
    const bool integers = below(2) == 0;
    d.op = std::vector{ncclSum, ncclMax, ncclMin}[below(3)];
    const unsigned root = below(100);
    d.in_place = below(2) == 0;
    const ncclComm_t comm = comms[below(4)];
    const cudaStream_t stream = streams[below(2)];
    if (comm == nullptr) continue;
    int ranks = 0;
    ASSERT_EQ(ncclCommCount(comm, &ranks), ncclSuccess);
    d.root = static_cast<int>(root) % ranks;
    if (integers)
      run_drawn<int32_t>(d, seed + round, comm, stream, ncclInt32);
    else
      run_drawn<float>(d, seed + round, comm, stream, ncclFloat32);
    if (::testing::Test::HasFailure()) return;
    ++checked;
  }
  process.report(std::to_string(checked));
  for (const cudaStream_t stream : streams) ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  for (const ncclComm_t comm : comms) ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
}
const RegisteredBody random_body("random", run_random);

// Reduces floats whose sum depends on the order.
const RegisteredBody bits_body("bits", [](const RankProcess& process) {
  ASSERT_EQ(cudaSetDevice(process.rank), cudaSuccess);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, process.ranks, process.share_id(), process.rank), ncclSuccess);
  std::mt19937 random(static_cast<unsigned>(process.rank));
  std::vector<float> host(5000);
  for (float& each : host) each = std::normal_distribution<float>()(random);
  float* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, host.size() * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(data, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(ncclAllReduce(data, data, host.size(), ncclFloat32, ncclAvg, comm, nullptr), ncclSuccess);
  ASSERT_EQ(cudaMemcpy(host.data(), data, host.size() * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  process.report(std::to_string(rt::fnv1a(host.data(), host.size() * sizeof(float))));
  ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
});

class NcclProcesses : public EmulatedTest {};

TEST_F(NcclProcesses, AllRanksHoldTheSameBits) {
  const auto outcomes = run_rank_processes(bits_body, 4);
  expect_good(outcomes);
  ASSERT_EQ(outcomes[0].reports.size(), 1u);
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.reports, outcomes[0].reports);
}

TEST_F(NcclProcesses, RandomCollectivesAreRight) {
  const auto first = first_seed();
  for (int i = 0; i < random_cases(9); ++i) {
    const int ranks = 2 + i % 3;
    const auto outcomes =
        run_rank_processes(random_body, ranks, std::to_string(first + static_cast<unsigned>(i)));
    expect_good(outcomes);
    for (const RankOutcome& outcome : outcomes) {
      EXPECT_THAT(outcome.reports,
                  ElementsAre(testing::ResultOf([](const auto& n) { return std::stoi(n); }, Gt(3))));
    }
    if (HasFailure()) {
      ADD_FAILURE() << ranks << " ranks, BRAID_TEST_SEED=" << first + static_cast<unsigned>(i);
      return;
    }
  }
}

}  // namespace
}  // namespace braid::test
