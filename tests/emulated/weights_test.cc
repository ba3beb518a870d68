// Weight files on a device: pieces, checks, and one copy for all instances (runtime/cuda/weights.h).
#ifndef BRAID_EMULATED_DEVICE
#define BRAID_EMULATED_DEVICE
#endif
#include "runtime/cuda/weights.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "tests/emulated/support.h"

static thread_local bool no_more_threads = false;

// The system's, unless it is to refuse.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  if (no_more_threads) return EAGAIN;
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}

namespace braid::test {
namespace {

using rt::kWeightBlock;
using rt::cuda::DeviceWeights;

constexpr std::uint64_t kCompilation = 0x5eed;

// A file with `bytes` of random tensors.
std::vector<unsigned char> weight_file(std::uint64_t bytes, int rank = -1) {
  rt::WeightFileHeader head = {};
  std::memcpy(head.magic, rt::kWeightMagic, sizeof head.magic);
  head.version = rt::kWeightVersion;
  head.rank = rank;
  head.compilation_id = kCompilation;
  head.tensors_end = sizeof head + bytes;
  const std::uint64_t blocks = rt::weight_blocks(head.tensors_end);
  head.bytes = head.tensors_end + blocks * sizeof(std::uint64_t);
  std::vector<unsigned char> file(head.bytes);
  std::memcpy(file.data(), &head, sizeof head);
  std::mt19937 random(static_cast<unsigned>(bytes));
  for (std::uint64_t k = sizeof head; k < head.tensors_end; ++k)
    file[k] = static_cast<unsigned char>(random());
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const std::uint64_t begin = sizeof head + b * kWeightBlock;
    const std::uint64_t sum =
        rt::checksum(file.data() + begin, std::min(kWeightBlock, head.tensors_end - begin));
    std::memcpy(file.data() + head.tensors_end + b * sizeof sum, &sum, sizeof sum);
  }
  return file;
}

rt::WeightFileHeader header_of(const std::vector<unsigned char>& file) {
  rt::WeightFileHeader head;
  EXPECT_TRUE(rt::read_weight_header(file.data(), file.size(), &head));
  return head;
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

class DeviceWeightsTest : public EmulatedTest {
 protected:
  void SetUp() override {
    EmulatedTest::SetUp();
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    EmulatedTest::TearDown();
  }
  std::shared_ptr<DeviceWeights> put(const std::vector<unsigned char>& file,
                                     const rt::cuda::UploadProgress& progress = {}) {
    cudaError_t error = cudaSuccess;
    std::shared_ptr<DeviceWeights> weights =
        DeviceWeights::of(file.data(), header_of(file), stream_, progress, &error);
    EXPECT_EQ(error, cudaSuccess);
    return weights;
  }
  cudaStream_t stream_ = nullptr;
};

TEST_F(DeviceWeightsTest, AllBytesArriveInPiecesAndProgressIsTold) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, kWeightBlock - 1, kWeightBlock, 128 * kWeightBlock - 64,
                                    128 * kWeightBlock, 300 * kWeightBlock + 7}) {
    const std::vector<unsigned char> file = weight_file(bytes);
    const std::uint64_t end = header_of(file).tensors_end;
    std::mutex mutex;
    std::uint64_t most = 0, calls = 0;
    const std::shared_ptr<DeviceWeights> weights = put(file, [&](std::uint64_t done, std::uint64_t total) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(total, end);
      most = std::max(most, done);
      ++calls;
    });
    ASSERT_NE(weights, nullptr) << bytes;
    EXPECT_EQ(most, end);
    EXPECT_EQ(calls, (end + (std::uint64_t{8} << 20) - 1) >> 23);
    std::vector<unsigned char> back(end);
    ASSERT_EQ(cudaMemcpyAsync(back.data(), weights->memory(), end, cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), file.begin())) << bytes;
  }
}

TEST_F(DeviceWeightsTest, OneThreadCopiesAllWhereTheSystemStartsNoOther) {
  const std::vector<unsigned char> file = weight_file(300 * kWeightBlock);
  const std::thread::id here = std::this_thread::get_id();
  int elsewhere = 0;
  no_more_threads = true;
  const std::shared_ptr<DeviceWeights> weights = put(
      file, [&](std::uint64_t, std::uint64_t) { elsewhere += std::this_thread::get_id() == here ? 0 : 1; });
  no_more_threads = false;
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(elsewhere, 0);
}

TEST_F(DeviceWeightsTest, InstancesOfOneProcessShareACopyAndTheLastOneFreesIt) {
  const std::vector<unsigned char> file = weight_file(100 * kWeightBlock), of_rank = weight_file(64, 0);
  const std::size_t before = free_memory();
  std::shared_ptr<DeviceWeights> first = put(file), second = put(file);
  EXPECT_EQ(first, second);
  EXPECT_LE(before - free_memory(), file.size() + 4096);
  const std::shared_ptr<DeviceWeights> other = put(of_rank);
  EXPECT_NE(other, first);
  first.reset();
  EXPECT_EQ(put(file), second);
  second.reset();
  EXPECT_LE(before - free_memory(), 4096u);
  // Another device has a copy of its own.
  first = put(file);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t there = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking), cudaSuccess);
  cudaError_t error = cudaSuccess;
  second = DeviceWeights::of(file.data(), header_of(file), there, {}, &error);
  EXPECT_EQ(error, cudaSuccess);
  EXPECT_NE(first, second);
  second.reset();
  cudaStreamDestroy(there);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(DeviceWeightsTest, InstancesMadeAtTheSameTimeShareACopy) {
  const std::vector<unsigned char> file = weight_file(300 * kWeightBlock);
  std::vector<std::shared_ptr<DeviceWeights>> made(4);
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> copied = 0;
  for (std::shared_ptr<DeviceWeights>& weights : made) {
    threads.emplace_back([&] {
      cudaStream_t own = nullptr;
      cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
      cudaError_t error = cudaSuccess;
      weights = DeviceWeights::of(
          file.data(), header_of(file), own,
          [&](std::uint64_t done, std::uint64_t total) { copied += done == total; }, &error);
      // Work that is enqueued later follows the copying; otherwise this gives a finding.
      std::vector<unsigned char> back(64);
      cudaMemcpyAsync(back.data(), weights->memory(), back.size(), cudaMemcpyDeviceToHost, own);
      cudaStreamSynchronize(own);
      cudaStreamDestroy(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::shared_ptr<DeviceWeights>& weights : made) EXPECT_EQ(weights, made[0]);
  EXPECT_EQ(copied, 1u);
}

TEST_F(DeviceWeightsTest, DamageAnywhereIsFoundAndNothingStays) {
  const std::size_t before = free_memory();
  std::vector<unsigned char> file = weight_file(300 * kWeightBlock + 7);
  const std::uint64_t end = header_of(file).tensors_end;
  for (std::uint64_t at : {std::uint64_t{64}, std::uint64_t{(128 * kWeightBlock) - 1}, 128 * kWeightBlock,
                           128 * kWeightBlock + 64, 256 * kWeightBlock + 1, end - 1}) {
    file[at] ^= 1;
    EXPECT_EQ(put(file), nullptr) << at;
    file[at] ^= 1;
    EXPECT_LE(before - free_memory(), 4096u);
  }
  EXPECT_NE(put(file), nullptr);
}

TEST_F(DeviceWeightsTest, TooLittleMemoryIsSaid) {
  const std::vector<unsigned char> file = weight_file(64);
  rt::WeightFileHeader head = header_of(file);
  head.tensors_end = std::uint64_t{1} << 50;
  cudaError_t error = cudaSuccess;
  EXPECT_EQ(DeviceWeights::of(file.data(), head, stream_, {}, &error), nullptr);
  EXPECT_EQ(error, cudaErrorMemoryAllocation);
}

}  // namespace
}  // namespace braid::test
