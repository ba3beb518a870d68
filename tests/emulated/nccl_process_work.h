// Work with communicators for the bodies of rank processes.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emulated/kernel.h"
#include "tests/emulated/rank_processes.h"

namespace braid::test {

using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::seconds kInTime{20};

inline ncclUniqueId id_of(const std::string& text) {
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  std::memcpy(id.internal, text.data(), std::min(text.size(), sizeof id.internal - 1));
  return id;
}

inline ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

// Until it has an error, or the limit is over.
inline ncclResult_t watch(ncclComm_t comm, Clock::duration limit) {
  const auto begin = Clock::now();
  ncclResult_t state = ncclInProgress;
  while ((state == ncclInProgress || state == ncclSuccess) && Clock::now() - begin < limit) {
    state = state_of(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

inline ncclComm_t begin_join(const ncclUniqueId& id, int rank, int ranks) {
  EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), ncclInProgress);
  return comm;
}

inline ncclComm_t join(const ncclUniqueId& id, int rank, int ranks) {
  EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess);
  return comm;
}

// A stream and memory of the current device.
struct Work {
  size_t count;
  cudaStream_t stream = nullptr;
  float* data = nullptr;

  explicit Work(size_t count = 16) : count(count) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(ncclMemAlloc(reinterpret_cast<void**>(&data), count * sizeof(float)), ncclSuccess);
    EXPECT_EQ(cudaMemsetAsync(data, 0, count * sizeof(float), stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  ncclResult_t sum(ncclComm_t comm) const {
    return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
  }
  // The sum of `value` over the ranks.
  float sum_of(float value, ncclComm_t comm) const {
    std::vector<float> host(count, value);
    EXPECT_EQ(cudaMemcpyAsync(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    EXPECT_EQ(sum(comm), ncclSuccess);
    EXPECT_EQ(cudaMemcpyAsync(host.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (const float each : host) EXPECT_EQ(each, host[0]);
    return host[0];
  }
};

inline std::vector<std::string> take_texts() {
  std::vector<std::string> texts;
  for (const Finding& finding : emulated::take_findings())
    texts.push_back(std::string(emulated::name_of(finding.kind)) + ": " + finding.text);
  return texts;
}

inline void report_findings(const RankProcess& process) {
  for (const std::string& text : take_texts()) process.report(text);
}

// This process stands still, having told the others its number, until one of them wakes it.
inline void stand_still(const RankProcess& process) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  process.tell(std::to_string(getpid()));
  raise(SIGSTOP);
}

// More than once: it may not stand still yet.
inline void wake(pid_t process, std::chrono::milliseconds after) {
  std::thread([process, after] {
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(after);
      if (kill(process, SIGCONT) != 0) return;
    }
  }).detach();
}

}  // namespace braid::test
