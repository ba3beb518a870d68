#include "runtime/cuda/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace braid::rt::cuda {

namespace {

// Blocks of the file that are copied at once, through pinned memory.
constexpr uint64_t kPieceBlocks = 128;
constexpr uint64_t kPieceBytes = kPieceBlocks * kWeightBlock;
constexpr uint64_t kMostThreads = 4;

using Key = std::tuple<int, uint64_t, int32_t>;  // device, compilation, rank or -1
struct Slot {
  std::mutex mutex;
  std::weak_ptr<DeviceWeights> weights;
};

std::shared_ptr<Slot> slot_of(const Key& key) {
  // Never destroyed: instances may be static objects.
  static auto& slots = *new std::pair<std::mutex, std::map<Key, std::shared_ptr<Slot>>>();
  const std::lock_guard lock(slots.first);
  std::shared_ptr<Slot>& slot = slots.second[key];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

// Checks the blocks that begin in these bytes of the file.
bool piece_intact(const void* file, uint64_t tensors_end, uint64_t begin, uint64_t end) {
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

}  // namespace

DeviceWeights::~DeviceWeights() {
  cudaSetDevice(device_);
  if (complete_ != nullptr) cudaEventDestroy(complete_);
  if (memory_ != nullptr) cudaFree(memory_);
}

std::shared_ptr<DeviceWeights> DeviceWeights::of(const void* file, const WeightFileHeader& head,
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

bool DeviceWeights::upload(const void* file, const WeightFileHeader& head, cudaStream_t stream,
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
  others.reserve(kMostThreads);
  try {
    for (uint64_t k = 1; k < std::min(pieces, kMostThreads); ++k) others.emplace_back(work);
  } catch (const std::system_error&) {
    // The system starts no more threads: this thread copies the pieces that the others do not.
  }
  work();
  for (std::thread& thread : others) thread.join();
  *error = first_error;
  if (*error == cudaSuccess) *error = cudaEventRecord(complete_, stream);
  return *error == cudaSuccess && intact;
}

}  // namespace braid::rt::cuda
