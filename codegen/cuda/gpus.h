// The GPUs of this machine as NVIDIA's driver describes them, without the CUDA toolkit.
#pragma once

#include <string>
#include <vector>

namespace braid::codegen::cuda {

struct Gpu {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  std::string pci_bus;       // "0000:1b:00.0"

  std::string architecture() const;  // "sm_90"
};

// Returns the GPUs in the order of CUDA's device numbers, $CUDA_VISIBLE_DEVICES applied. Empty if there is no
// driver or it reports no device; then `why` says what was missing.
const std::vector<Gpu>& find_gpus(std::string* why = nullptr);
// Does the same without a child process, for a process that will use CUDA itself and may have several
// threads. Children that it forks afterwards must not use CUDA.
std::vector<Gpu> find_gpus_here(std::string* why = nullptr);

// Returns one line about a GPU to print with its times: name, architecture, driver, and the present clocks
// with their maxima, as far as the driver reports them.
std::string describe_gpu(int device);

}  // namespace braid::codegen::cuda
