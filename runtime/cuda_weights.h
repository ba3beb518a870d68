// Weight files on a device. The instances of a process share one copy per device, file and program.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cuda_program.h"
#include "runtime/weight_file.h"

namespace braid::rt::cuda {

// Receives the bytes on the device so far and in all, from any thread.
using UploadProgress = std::function<void(uint64_t done, uint64_t total)>;

class DeviceWeights {
 public:
  explicit DeviceWeights(int device) : device_(device) {}
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;
  ~DeviceWeights() {
    cudaSetDevice(device_);
    if (complete_ != nullptr) cudaEventDestroy(complete_);
    if (memory_ != nullptr) cudaFree(memory_);
  }

  // The copy on the current device of a file whose header, `head`, has been checked. What is enqueued on `stream` later
  // follows the copying. Null if a call failed, or the file is damaged: then *error is cudaSuccess.
  static std::shared_ptr<DeviceWeights> of(const void* file, const WeightFileHeader& head,
                                           cudaStream_t stream, const UploadProgress& progress,
                                           cudaError_t* error) {
    int device = 0;
    if ((*error = cudaGetDevice(&device)) != cudaSuccess) return nullptr;
    const std::shared_ptr<Slot> slot = slot_of({device, head.compilation_id, head.rank});
    // Other files go over at the same time.
    const std::lock_guard lock(slot->mutex);
    if (std::shared_ptr<DeviceWeights> known = slot->weights.lock()) {
      *error = cudaStreamWaitEvent(stream, known->complete_, 0);
      return *error == cudaSuccess ? known : nullptr;
    }
    auto fresh = std::make_shared<DeviceWeights>(device);
    if (!fresh->upload(file, head, stream, progress, error)) return nullptr;
    slot->weights = fresh;
    return fresh;
  }

  char* memory() const { return memory_; }

 private:
  // Of the file's blocks that go over at once, through memory that the device reads by itself.
  static constexpr uint64_t kPieceBlocks = 128;
  static constexpr uint64_t kPieceBytes = kPieceBlocks * kWeightBlock;
  static constexpr uint64_t kMostThreads = 4;

  using Key = std::tuple<int, uint64_t, int32_t>;  // device, compilation, rank or -1
  struct Slot {
    std::mutex mutex;
    std::weak_ptr<DeviceWeights> weights;
  };
  static std::shared_ptr<Slot> slot_of(const Key& key) {
    // Never destroyed: instances may be static objects.
    static auto& slots = *new std::pair<std::mutex, std::map<Key, std::shared_ptr<Slot>>>();
    const std::lock_guard lock(slots.first);
    std::shared_ptr<Slot>& slot = slots.second[key];
    if (slot == nullptr) slot = std::make_shared<Slot>();
    return slot;
  }

  bool upload(const void* file, const WeightFileHeader& head, cudaStream_t stream,
              const UploadProgress& progress, cudaError_t* error) {
    // The record orders the allocation before what other threads enqueue.
    if ((*error = cudaEventCreateWithFlags(&complete_, cudaEventDisableTiming)) != cudaSuccess ||
        (*error = cudaMalloc(reinterpret_cast<void**>(&memory_), head.tensors_end)) != cudaSuccess ||
        (*error = cudaEventRecord(complete_, stream)) != cudaSuccess)
      return false;
    std::atomic<uint64_t> next = 0, done = 0;
    std::atomic<bool> intact = true;
    std::atomic<cudaError_t> first_error = cudaSuccess;
    const uint64_t pieces = (head.tensors_end + kPieceBytes - 1) / kPieceBytes;
    // Checks pieces and copies them, until none is left.
    const auto work = [&] {
      void* pinned = nullptr;
      cudaError_t e = cudaSetDevice(device_);
      if (e == cudaSuccess)
        e = cudaHostAlloc(&pinned, std::min(kPieceBytes, head.tensors_end), cudaHostAllocDefault);
      for (uint64_t piece; e == cudaSuccess && intact && (piece = next++) < pieces;) {
        const uint64_t begin = piece * kPieceBytes, bytes = std::min(kPieceBytes, head.tensors_end - begin);
        if (!piece_intact(file, head.tensors_end, begin, begin + bytes)) intact = false;
        std::memcpy(pinned, static_cast<const char*>(file) + begin, bytes);
        e = cudaMemcpyAsync(memory_ + begin, pinned, bytes, cudaMemcpyHostToDevice, stream);
        if (e == cudaSuccess) e = cudaStreamSynchronize(stream);
        if (progress) progress(done += bytes, head.tensors_end);
      }
      if (pinned != nullptr) cudaFreeHost(pinned);
      if (e != cudaSuccess) first_error = e;
    };
    std::vector<std::thread> others;
    for (uint64_t k = 1; k < std::min(pieces, kMostThreads); ++k) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    *error = first_error;
    if (*error == cudaSuccess) *error = cudaEventRecord(complete_, stream);
    return *error == cudaSuccess && intact;
  }

  // Checks the blocks that begin in these bytes of the file.
  static bool piece_intact(const void* file, uint64_t tensors_end, uint64_t begin, uint64_t end) {
    const auto block_at = [](uint64_t byte) {
      return byte <= sizeof(WeightFileHeader)
                 ? 0
                 : (byte - sizeof(WeightFileHeader) + kWeightBlock - 1) / kWeightBlock;
    };
    for (uint64_t block = block_at(begin); block < std::min(block_at(end), weight_blocks(tensors_end));
         ++block) {
      if (!weight_block_intact(file, tensors_end, block)) return false;
    }
    return true;
  }

  const int device_;
  char* memory_ = nullptr;
  cudaEvent_t complete_ = nullptr;
};

}  // namespace braid::rt::cuda
