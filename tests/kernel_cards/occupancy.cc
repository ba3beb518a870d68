// NVIDIA's own calculator of occupancy, of which kernel_cards_test.py compares each line with ours:
//   occupancy MAJOR MINOR SHARED_BYTES BLOCK_SHARED_BYTES
// prints registers, threads, shared bytes, resident threads.
#include <cuda_occupancy.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  cudaOccDeviceProp device;
  device.computeMajor = std::atoi(argv[1]);
  device.computeMinor = std::atoi(argv[2]);
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = 2048;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.numSms = 1;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = std::strtoul(argv[3], nullptr, 10);
  device.sharedMemPerBlockOptin = std::strtoul(argv[4], nullptr, 10);
  device.reservedSharedMemPerBlock = 1024;
  for (int registers = 1; registers <= 255; registers += 3) {
    for (int threads = 32; threads <= 1024; threads += 32) {
      for (int shared : {0, 1, 128, 1000, 3072, 33000, 49152, 100000, 116000, 166912}) {
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = 0;
        kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.numBlockBarriers = 1;
        const cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                                    static_cast<std::size_t>(shared)) != CUDA_OCC_SUCCESS)
          return 1;
        std::printf("%d %d %d %d\n", registers, threads, shared,
                    result.activeBlocksPerMultiprocessor * threads);
      }
    }
  }
}
