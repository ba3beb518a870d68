#include "device_properties.h"

#include "device_api.h"

namespace braid::gpu_bundle {

#ifdef BRAID_EMULATED_DEVICE
std::string device_properties_json() { return "{}"; }
L2Memory l2_and_free_memory() { return {}; }
#else
namespace {

// Attributes instead of cudaDeviceProp, which has no clocks since CUDA 13.
constexpr struct {
  const char* name;
  cudaDeviceAttr attribute;
} kAttributes[] = {
    {"multiprocessors", cudaDevAttrMultiProcessorCount},
    {"clock_khz", cudaDevAttrClockRate},
    {"memory_clock_khz", cudaDevAttrMemoryClockRate},
    {"memory_bus_bits", cudaDevAttrGlobalMemoryBusWidth},
    {"l2_bytes", cudaDevAttrL2CacheSize},
    {"persisting_l2_bytes", cudaDevAttrMaxPersistingL2CacheSize},
    {"multiprocessor_threads", cudaDevAttrMaxThreadsPerMultiProcessor},
    {"multiprocessor_blocks", cudaDevAttrMaxBlocksPerMultiprocessor},
    {"multiprocessor_registers", cudaDevAttrMaxRegistersPerMultiprocessor},
    {"multiprocessor_shared_bytes", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
    {"block_threads", cudaDevAttrMaxThreadsPerBlock},
    {"block_registers", cudaDevAttrMaxRegistersPerBlock},
    {"block_shared_bytes", cudaDevAttrMaxSharedMemoryPerBlock},
    {"block_shared_bytes_opted_in", cudaDevAttrMaxSharedMemoryPerBlockOptin},
    {"block_shared_bytes_reserved", cudaDevAttrReservedSharedMemoryPerBlock},
    {"warp_threads", cudaDevAttrWarpSize},
    {"copy_engines", cudaDevAttrAsyncEngineCount},
    {"error_correction", cudaDevAttrEccEnabled},
    {"cooperative_launch", cudaDevAttrCooperativeLaunch},
    {"memory_pools", cudaDevAttrMemoryPoolsSupported},
};

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  GPU_CHECK(cudaGetDevice(&device));
  GPU_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

std::string device_properties_json() {
  int device = 0;
  cudaDeviceProp properties;
  GPU_CHECK(cudaGetDevice(&device));
  GPU_CHECK(cudaGetDeviceProperties(&properties, device));
  std::string text = "{\"name\": \"" + std::string(properties.name) + "\", \"architecture\": \"sm_" +
                     std::to_string(properties.major) + std::to_string(properties.minor) +
                     "\", \"memory_bytes\": " + std::to_string(properties.totalGlobalMem);
  for (const auto& [name, which] : kAttributes)
    text += ", \"" + std::string(name) + "\": " + std::to_string(attribute(which));
  return text + "}";
}

L2Memory l2_and_free_memory() {
  size_t free = 0, total = 0;
  GPU_CHECK(cudaMemGetInfo(&free, &total));
  return {static_cast<uint64_t>(attribute(cudaDevAttrL2CacheSize)), free};
}
#endif

}  // namespace braid::gpu_bundle
