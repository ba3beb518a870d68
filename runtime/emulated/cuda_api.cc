// Memory, copies, launches and devices of the emulated CUDA runtime.
#include "runtime/emulated/cuda_api.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/emulated/addresses.h"
#include "runtime/emulated/block.h"
#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/launch_limits.h"
#include "runtime/emulated/nccl_comm.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/step_scope.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {

extern __thread AccessSet* current_accesses __attribute__((tls_model("initial-exec")));

namespace {

struct HostMemory {
  std::mutex mutex;
  std::unordered_map<const void*, size_t> dynamic_limits;  // of cudaFuncSetAttribute
};

HostMemory& host_memory() {
  static HostMemory* instance = new HostMemory;
  return *instance;
}

bool pinned(const void* pointer) {
  const int index = device_memory().find(reinterpret_cast<uintptr_t>(pointer));
  return index >= 0 && device_memory().at(index).kind == AllocationKind::kPinned;
}

bool on_device(const void* pointer) {
  return DeviceMemory::contains(reinterpret_cast<uintptr_t>(pointer)) && !pinned(pointer);
}

std::unique_ptr<Fault> touch(AccessSet& accesses, const void* pointer, size_t size, AccessKind kind) {
  if (size == 0 || !DeviceMemory::contains(reinterpret_cast<uintptr_t>(pointer))) return nullptr;
  const std::string* fault = accesses.record(reinterpret_cast<uintptr_t>(pointer), size, kind);
  if (fault == nullptr) return nullptr;
  return std::make_unique<Fault>(Fault{FindingKind::kIllegalAccess, *fault});
}

cudaError_t copy(void* to, const void* from, size_t size, cudaMemcpyKind kind, CUstream_st& stream,
                 const char* call = __builtin_FUNCTION()) {
  if (size == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return result(cudaErrorInvalidValue, call);
  const bool to_device = on_device(to), from_device = on_device(from);
  const char* name = to_device ? (from_device ? "copy device to device" : "copy host to device")
                               : (from_device ? "copy device to host" : "copy host to host");
  const bool fits = kind == cudaMemcpyDefault ||
                    (kind == cudaMemcpyHostToHost && !to_device && !from_device) ||
                    (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                    (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                    (kind == cudaMemcpyDeviceToDevice && to_device && from_device);
  if (!fits) {
    finding_list().add(
        FindingKind::kInvalidUse,
        std::string("the direction given to cudaMemcpy does not match the pointers: this is a ") + name);
    return result(cudaErrorInvalidMemcpyDirection, call);
  }
  const bool pageable = (!to_device && !pinned(to)) || (!from_device && !pinned(from));
  if (pageable && call == std::string("cudaMemcpyAsync"))
    not_within_step("cudaMemcpyAsync with pageable host memory");
  const std::shared_ptr<Capture> capture = stream.capture();
  if (pageable && capture != nullptr)
    return capture_error(capture.get(), cudaErrorStreamCaptureUnsupported, call,
                         "a graph cannot copy pageable host memory");
  const cudaError_t error = enqueue_operation(stream, name, [=](TaskContext& context) {
    auto fault = touch(context.accesses, from, size, AccessKind::kRead);
    if (!fault) fault = touch(context.accesses, to, size, AccessKind::kWrite);
    if (!fault) std::memmove(to, from, size);
    return fault;
  });
  // As on a GPU: the call returns when pageable host memory may be used again. It orders nothing else.
  if (pageable) stream.wait_until_idle();
  return error;
}

// Allocating and freeing count as writes of the host thread: uses of the memory must be ordered with them.
void record_host_write(void* pointer, size_t size, const char* name) {
  const auto operation = host_thread().begin(name);
  const int allocation = device_memory().find(reinterpret_cast<uintptr_t>(pointer));
  AccessRanges ranges;
  ranges.writes.push_back({allocation, 0, size});
  checker().finish(operation, std::move(ranges));
}

}  // namespace

void* allocate(size_t size, AllocationKind kind) {
  const int device = host_thread().device;
  const size_t limit = kind == AllocationKind::kPinned ? kRegionBytes : options().device_bytes;
  void* pointer = device_memory().allocate(size, device, kind, limit, host_thread().label);
  static const char* const names[] = {"cudaMalloc", "ncclMemAlloc", "cudaHostAlloc"};
  if (pointer != nullptr) record_host_write(pointer, size, names[static_cast<int>(kind)]);
  return pointer;
}

bool release(void* pointer, AllocationKind kind) {
  const int index = device_memory().find(reinterpret_cast<uintptr_t>(pointer));
  if (index < 0) return false;
  const Allocation allocation = device_memory().at(index);
  if (allocation.begin != reinterpret_cast<uintptr_t>(pointer) || allocation.freed || allocation.kind != kind)
    return false;
  report_registered(allocation);
  // Freeing waits for the device's own work only, as on a GPU. Freeing host memory implies no order; here it
  // waits as well, so that a race with a copy is the same finding in each run.
  static const char* const names[] = {"cudaFree", "ncclMemFree", "cudaFreeHost"};
  Device& device = device_at(allocation.device);
  std::vector<CUstream_st*> streams;
  {
    std::lock_guard lock(device.mutex);
    streams = device.streams;
  }
  for (CUstream_st* stream : streams) {
    if (kind == AllocationKind::kPinned)
      stream->wait_until_idle();
    else
      stream->synchronize();
  }
  if (mapped_by_peers(allocation)) return true;  // their kernels may still look at its flags
  record_host_write(pointer, allocation.size, names[static_cast<int>(kind)]);
  return device_memory().free(pointer, kind);
}

void set_label(const char* label, int node) {
  host_thread().label = label == nullptr ? "" : label;
  host_thread().node = node;
}

cudaError_t launch_kernel(const char* name, const void* function, dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t handle, LaunchParameters parameters) {
  const std::shared_ptr<const void> owner(parameters.memory, parameters.destroy);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle, name);
  if (stream->device.error.load() != cudaSuccess)
    return result(static_cast<cudaError_t>(stream->device.error.load()), name);
  size_t limit = kDefaultSharedBytes, shared_limit = kDefaultSharedBytes;
  {
    std::lock_guard lock(host_memory().mutex);
    const auto it = host_memory().dynamic_limits.find(function);
    if (it != host_memory().dynamic_limits.end()) limit = it->second, shared_limit = options().shared_bytes;
  }
  if (const std::string error = launch_error(grid, block, shared_bytes, limit); !error.empty()) {
    const std::string& label = host_thread().label;
    finding_list().add(FindingKind::kInvalidUse, "launch of " + std::string(name) +
                                                     (label.empty() ? "" : " [" + label + "]") + " on rank " +
                                                     std::to_string(stream->device.index) + ": " + error);
    return result(cudaErrorInvalidConfiguration, name);
  }
  stream->must_be_launched(name);
  if (const cudaError_t error = implicit_while_capturing(*stream, name); error != cudaSuccess) return error;
  stream->enqueue(
      {WorkKind::kKernel, name, [=, name = std::string(name), owner = owner](TaskContext& context) {
         KernelOperation operation(context, name, block);
         const Fault* fault =
             block_runner().run({function, grid, block, shared_bytes, shared_limit}, parameters, operation);
         operation.finish();
         if (fault != nullptr) report_fault(context, name, *fault);
         return fault == nullptr;
       }});
  return cudaSuccess;
}

}  // namespace braid::emulated

using namespace braid::emulated;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  if (addresses() == nullptr) return result(cudaErrorMemoryAllocation);
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  *pointer = allocate(size, AllocationKind::kCuda);
  return *pointer == nullptr ? result(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  if (!release(pointer, AllocationKind::kCuda)) {
    finding_list().add(FindingKind::kInvalidUse,
                       "cudaFree on rank " + std::to_string(host_thread().device) +
                           " of a pointer that is not the start of a live cudaMalloc allocation");
    return result(cudaErrorInvalidValue);
  }
  return result(sticky_error());
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned int) {
  if (addresses() == nullptr) return result(cudaErrorMemoryAllocation);
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  *pointer = allocate(size, AllocationKind::kPinned);
  return *pointer == nullptr ? result(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  if (release(pointer, AllocationKind::kPinned)) return cudaSuccess;
  finding_list().add(FindingKind::kInvalidUse,
                     "cudaFreeHost on rank " + std::to_string(host_thread().device) +
                         " of a pointer that is not the start of live memory of cudaHostAlloc");
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  return copy(to, from, size, kind, *stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  CUstream_st* stream = find_stream(nullptr);
  const cudaError_t error = copy(to, from, size, kind, *stream);
  return error != cudaSuccess ? error : result(stream->synchronize());
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t size, cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  if (size == 0) return cudaSuccess;
  if (!on_device(pointer)) return result(cudaErrorInvalidValue);
  return enqueue_operation(*stream, "memset", [=](TaskContext& context) {
    auto fault = touch(context.accesses, pointer, size, AccessKind::kWrite);
    if (!fault) std::memset(pointer, value, size);
    return fault;
  });
}

cudaError_t cudaMemset(void* pointer, int value, size_t size) {
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  const cudaError_t error = cudaMemsetAsync(pointer, value, size, nullptr);
  return error != cudaSuccess ? error : result(find_stream(nullptr)->synchronize());
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (free == nullptr || total == nullptr) return result(cudaErrorInvalidValue);
  *total = options().device_bytes;
  *free = *total - device_memory().used_bytes(host_thread().device);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return result(cudaErrorInvalidValue);
  void* const address = const_cast<void*>(pointer);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address, {}};
  const int index = device_memory().find(reinterpret_cast<uintptr_t>(pointer));
  if (index < 0 || device_memory().at(index).freed) return cudaSuccess;
  const Allocation memory = device_memory().at(index);
  const bool host = memory.kind == AllocationKind::kPinned;
  *attributes = {
      host ? cudaMemoryTypeHost : cudaMemoryTypeDevice, memory.device, address, host ? address : nullptr, {}};
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  not_within_step();
  if (const cudaError_t error = unsafe_while_capturing(); error != cudaSuccess) return error;
  Device& device = current_device();
  std::vector<CUstream_st*> streams;
  {
    std::lock_guard lock(device.mutex);
    streams = device.streams;
  }
  for (CUstream_st* stream : streams) stream->synchronize();
  return result(sticky_error());
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return result(cudaErrorInvalidValue);
  *device = host_thread().device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!valid_device(device)) return result(cudaErrorInvalidDevice);
  if (addresses() == nullptr) return result(cudaErrorMemoryAllocation);
  host_thread().set_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return result(cudaErrorInvalidValue);
  if (addresses() == nullptr) return result(cudaErrorMemoryAllocation);
  *count = options().devices;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (value == nullptr) return result(cudaErrorInvalidValue);
  if (!valid_device(device)) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = kMaxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7fffffff;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kDefaultSharedBytes;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(options().shared_bytes);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = kLanes;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = options().processors;
      return cudaSuccess;
    // The values of an H100.
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > options().shared_bytes)
    return result(cudaErrorInvalidValue);
  std::lock_guard lock(host_memory().mutex);
  host_memory().dynamic_limits[function] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
  const auto error = static_cast<cudaError_t>(host_thread().last_error);
  host_thread().last_error = cudaSuccess;
  return error != cudaSuccess ? error : sticky_error();
}

cudaError_t cudaPeekAtLastError(void) {
  const auto error = static_cast<cudaError_t>(host_thread().last_error);
  return error != cudaSuccess ? error : sticky_error();
}

}  // extern "C"
