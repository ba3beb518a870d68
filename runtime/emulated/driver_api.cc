// The part of the CUDA driver's interface that the emulated device has. It is reached through
// cudaGetDriverEntryPointByVersion.
#include <cstring>
#include <memory>

#include "runtime/emulated/block.h"
#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {
namespace {

// CUresult.
constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidHandle = 400;

// cuStreamWriteValue32. The host may look at the value at any time, so it is not held against other accesses.
int stream_write_value(cudaStream_t handle, unsigned long long address, uint32_t value, unsigned flags) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (sticky_error() != cudaSuccess) return static_cast<int>(sticky_error());
  const int index = device_memory().find(address);
  if (flags > 1 || address % sizeof value != 0 || index < 0) return kInvalidValue;
  const Allocation memory = device_memory().at(index);
  if (memory.freed || address + sizeof value > memory.end()) return kInvalidValue;
  const cudaError_t error =
      enqueue_operation(*stream, "cuStreamWriteValue32", [=](TaskContext&) -> std::unique_ptr<Fault> {
        __atomic_store_n(reinterpret_cast<uint32_t*>(address), value, __ATOMIC_RELAXED);
        return nullptr;
      });
  return static_cast<int>(error);
}

}  // namespace
}  // namespace braid::emulated

using namespace braid::emulated;

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* found) {
  if (symbol == nullptr || function == nullptr) return result(cudaErrorInvalidValue);
  const bool known = std::strcmp(symbol, "cuStreamWriteValue32") == 0;
  *function = known ? reinterpret_cast<void*>(stream_write_value) : nullptr;
  if (found != nullptr) *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
