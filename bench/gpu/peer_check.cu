// Kernels that read peers' memory, with two ranks on one GPU. NCCL's communicators refuse that, so the
// kernels get the addresses of two segments in one allocation, 4 GiB apart, as NCCL would map them for two
// ranks.
//
// Both kernels have at most 24 blocks, so that they run at once; each waits for the other's flags. Prints a
// line per kernel, type and size, as gpu_check does.
#define BRAID_PEER_ACCESS
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "device_api.h"
#include "runtime/cuda_program.h"

namespace braid::gpu_bundle {
namespace {

using namespace rt::device;

constexpr int kRanks = 2;
constexpr size_t kApart = size_t{4} << 30, kSegment = size_t{64} << 20, kFlags = 0;
constexpr uint64_t kInput = 1 << 20, kOutput = uint64_t{32} << 20;

// The resources that both ranks share on one GPU.
struct Pair {
  char* base = nullptr;
  int* abandoned = nullptr;
  cudaStream_t streams[kRanks] = {};

  Pair() {
    GPU_CHECK(cudaMalloc(reinterpret_cast<void**>(&base), kApart + kSegment));
    GPU_CHECK(cudaMemset(base, 0, kInput));
    GPU_CHECK(cudaMemset(base + kApart, 0, kInput));
    GPU_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&abandoned), sizeof(int), cudaHostAllocDefault));
    *abandoned = 0;
    for (cudaStream_t& s : streams) GPU_CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  }
  char* segment(int rank) const { return base + static_cast<size_t>(rank) * kApart; }
  PeerGroup group(int rank) const {
    PeerGroup out = {};
    for (int r = 0; r < kRanks; ++r) out.segments[r] = segment(r);
    out.flags = kFlags;
    out.abandoned = abandoned;
    out.rank = rank;
    out.ranks = kRanks;
    return out;
  }

  // Waits at most 20 seconds; then tells the kernels to give up.
  void wait() {
    for (int k = 0; k < 20'000; ++k) {
      bool done = true;
      for (cudaStream_t s : streams) {
        const cudaError_t e = cudaStreamQuery(s);
        if (e != cudaErrorNotReady) check(e, "the kernels");
        done = done && e == cudaSuccess;
      }
      if (done) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    __atomic_store_n(abandoned, 1, __ATOMIC_RELAXED);
    for (cudaStream_t s : streams) cudaStreamSynchronize(s);
    throw std::runtime_error("the kernels of the two ranks wait for each other: do they run at once?");
  }
};

enum class Kind { one_shot, in_place, two_shot, gather, scatter };
constexpr const char* kNames[] = {"one_shot_all_reduce", "one_shot_all_reduce_in_place",
                                  "two_shot_all_reduce", "one_shot_all_gather", "one_shot_reduce_scatter"};

// Small integers: sums are exact in every type.
template <class T>
T value(int rank, int64_t i) {
  return from_float<T>(static_cast<float>((i * 7 + rank * 5) % 17 - 8));
}
template <>
float value<float>(int rank, int64_t i) {
  return static_cast<float>((i * 7 + rank * 5) % 17 - 8);
}

template <class T>
void launch(const Pair& pair, Kind kind, int rank, int64_t count, unsigned blocks) {
  const PeerGroup group = pair.group(rank);
  const cudaStream_t stream = pair.streams[rank];
  T* output = reinterpret_cast<T*>(pair.segment(rank) + kOutput);
  T* input = reinterpret_cast<T*>(pair.segment(rank) + kInput);
  const auto on = [&](auto kernel, auto... arguments) {
    GPU_CHECK(rt::cuda::launch("", kernel, dim3(blocks), dim3(kPeerThreads), 0, stream, group, arguments...));
  };
  switch (kind) {
    case Kind::one_shot:
      return on(one_shot_all_reduce<Sum, T>, kInput, output, count);
    case Kind::in_place:
      return on(one_shot_all_reduce_in_place<Sum, T>, kInput, input, count);
    case Kind::two_shot:
      return on(two_shot_all_reduce<Sum, T>, kInput, kOutput, count);
    case Kind::gather:
      return on(one_shot_all_gather<T>, kInput, output, count);
    case Kind::scatter:
      return on(one_shot_reduce_scatter<Sum, T>, kInput, output, count);
  }
}

template <class T>
void run(Pair& pair, Kind kind, int64_t count) {
  const int64_t inputs = kind == Kind::scatter ? count * kRanks : count;
  const int64_t outputs = kind == Kind::gather ? count * kRanks : count;
  const auto f = [](T x) {
    if constexpr (std::is_same_v<T, float>)
      return x;
    else
      return to_float(x);
  };
  for (int repeat = 0; repeat < 3; ++repeat) {  // flags are as a kernel leaves them
    for (int r = 0; r < kRanks; ++r) {
      std::vector<T> host(static_cast<size_t>(inputs));
      for (int64_t i = 0; i < inputs; ++i) host[static_cast<size_t>(i)] = value<T>(r, i + repeat);
      GPU_CHECK(
          cudaMemcpy(pair.segment(r) + kInput, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    GPU_CHECK(cudaDeviceSynchronize());
    const int64_t packs =
        (count * static_cast<int64_t>(sizeof(T)) + 16 * kPeerThreads - 1) / (16 * kPeerThreads);
    const auto blocks = static_cast<unsigned>(packs < 1 ? 1 : packs < kPeerBlocks ? packs : kPeerBlocks);
    for (int r = 0; r < kRanks; ++r) launch<T>(pair, kind, r, count, blocks);
    pair.wait();
    for (int r = 0; r < kRanks; ++r) {
      std::vector<T> got(static_cast<size_t>(outputs));
      const uint64_t at = kind == Kind::in_place ? kInput : kOutput;
      GPU_CHECK(cudaMemcpy(got.data(), pair.segment(r) + at, got.size() * sizeof(T), cudaMemcpyDeviceToHost));
      for (int64_t i = 0; i < outputs; ++i) {
        const int64_t n = i + repeat;
        const float want = kind == Kind::gather ? f(value<T>(static_cast<int>(i / count), i % count + repeat))
                           : kind == Kind::scatter
                               ? f(value<T>(0, n + r * count)) + f(value<T>(1, n + r * count))
                               : f(value<T>(0, n)) + f(value<T>(1, n));
        if (f(got[static_cast<size_t>(i)]) != want)
          throw std::runtime_error("rank " + std::to_string(r) + ", element " + std::to_string(i) + ": got " +
                                   std::to_string(f(got[static_cast<size_t>(i)])) + ", expected " +
                                   std::to_string(want));
      }
    }
  }
}

int main_() {
  int failed = 0;
  Pair pair;
  for (int64_t count : {int64_t{1}, int64_t{1037}, int64_t{60'001}, int64_t{1} << 20}) {
    for (Kind kind : {Kind::one_shot, Kind::in_place, Kind::two_shot, Kind::gather, Kind::scatter}) {
      for (const char* type : {"f32", "f16", "bf16"}) {
        const std::string id =
            std::string(kNames[static_cast<int>(kind)]) + "_" + type + "_" + std::to_string(count);
        std::printf("BEGIN %s\n", id.c_str());
        std::fflush(stdout);
        std::string why;
        try {
          if (type[0] == 'b')
            run<__nv_bfloat16>(pair, kind, count);
          else if (type[1] == '1')
            run<__half>(pair, kind, count);
          else
            run<float>(pair, kind, count);
        } catch (const std::exception& e) {
          why = e.what();
          ++failed;
        }
        std::printf("END %s %s%s%s\n", id.c_str(), why.empty() ? "pass" : "fail", why.empty() ? "" : ": ",
                    why.c_str());
        std::fflush(stdout);
        if (*pair.abandoned != 0) return 1;  // the flags are in an unknown state
      }
    }
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace braid::gpu_bundle

int main() {
  try {
    return braid::gpu_bundle::main_();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "peer_check: %s\n", e.what());
    return 1;
  }
}
