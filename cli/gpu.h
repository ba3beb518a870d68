// The GPUs of this machine as NVIDIA's driver describes them, without the CUDA toolkit; and which device a CUDA
// program runs on.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

struct Gpu {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  std::string pci_bus;       // "0000:1b:00.0"

  std::string architecture() const;  // "sm_90"
};

// In the order of CUDA's device numbers, $CUDA_VISIBLE_DEVICES applied. Empty if there is no driver or it reports no
// device; then `why` says what was missing.
const std::vector<Gpu>& find_gpus(std::string* why = nullptr);

// One line about a GPU for what is printed with its times: name, architecture, driver, and the clocks of this moment
// with their maxima, as far as the driver tells.
std::string describe_gpu(int device);

// Where CUDA programs run.
enum class DeviceChoice { automatic, gpu, emulated };

// --device gpu|emulated
void add_device(CLI::App& command, DeviceChoice& choice);

// Whether CUDA programs run on the emulated device. If nothing was chosen, they do so if there is no GPU, and a line on
// standard error says it once. UserError BR0013 if a GPU was chosen but there is none.
bool choose_emulated(DeviceChoice choice);

// UserError BR0013 if there are fewer GPUs than ranks.
void require_gpus(int ranks);

}  // namespace braid::cli
