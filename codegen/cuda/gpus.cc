#include "codegen/cuda/gpus.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <utility>

namespace braid::codegen::cuda {
namespace {

// A library of the driver, which stays loaded. Its functions are declared here, because the headers belong to
// the toolkit.
class DriverLibrary {
 public:
  explicit DriverLibrary(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) why_ = dlerror();
  }
  bool loaded() const { return handle_ != nullptr; }
  const std::string& why() const { return why_; }
  // The result of the named function: 0 is success. -1 if the library lacks it.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function =
        handle_ == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

 private:
  void* handle_;
  std::string why_;
};

const DriverLibrary& cuda() {
  static const DriverLibrary library("libcuda.so.1");
  return library;
}
const DriverLibrary& nvml() {
  static const DriverLibrary library("libnvidia-ml.so.1");
  static const int ready = library.call("nvmlInit_v2");
  (void)ready;
  return library;
}

// CUdevice_attribute and nvmlClockType_t
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76, kSmClock = 1, kMemoryClock = 2;

std::vector<Gpu> ask_driver(std::string& why) {
  std::vector<Gpu> gpus;
  if (!cuda().loaded()) {
    why = "NVIDIA's driver is not installed";
    return gpus;
  }
  int count = 0;
  if (const int status = cuda().call("cuInit", 0u); status != 0) {
    why = status == 100 ? "NVIDIA's driver found no device" : fmt::format("cuInit failed with {}", status);
    return gpus;
  }
  if (cuda().call("cuDeviceGetCount", &count) != 0 || count == 0) why = "NVIDIA's driver found no device";
  for (int k = 0; k < count; ++k) {
    int device = 0;
    char text[256] = "";
    Gpu gpu;
    cuda().call("cuDeviceGet", &device, k);
    if (cuda().call("cuDeviceGetName", &text[0], static_cast<int>(sizeof text), device) == 0) gpu.name = text;
    cuda().call("cuDeviceGetAttribute", &gpu.major, kCapabilityMajor, device);
    cuda().call("cuDeviceGetAttribute", &gpu.minor, kCapabilityMinor, device);
    if (cuda().call("cuDeviceGetPCIBusId", &text[0], static_cast<int>(sizeof text), device) == 0)
      gpu.pci_bus = text;
    gpus.push_back(gpu);
  }
  return gpus;
}

// Runs in a child process, because a process that has initialised CUDA cannot fork ranks. Writes what is
// missing on the first line, then a line per GPU.
void write_gpus(int descriptor) {
  std::string why;
  const std::vector<Gpu> gpus = ask_driver(why);
  std::string text = why + "\n";
  for (const Gpu& gpu : gpus)
    text +=
        fmt::format("{} {} {} {}\n", gpu.major, gpu.minor, gpu.pci_bus.empty() ? "?" : gpu.pci_bus, gpu.name);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(descriptor, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<std::size_t>(written);
  }
}

std::vector<Gpu> ask_driver_in_a_child(std::string& why) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ask_driver(why);
  const pid_t child = ::fork();
  if (child == 0) {
    write_gpus(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 1; child > 0 && got != 0;) {
    got = ::read(ends[0], buffer, sizeof buffer);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::istringstream lines(text);
  if (!std::getline(lines, why)) why = "NVIDIA's driver does not answer";
  std::vector<Gpu> gpus;
  for (Gpu gpu; lines >> gpu.major >> gpu.minor >> gpu.pci_bus && std::getline(lines >> std::ws, gpu.name);)
    gpus.push_back(gpu);
  return gpus;
}

}  // namespace

std::string Gpu::architecture() const { return fmt::format("sm_{}{}", major, minor); }

std::vector<Gpu> find_gpus_here(std::string* why) {
  std::string reason;
  std::vector<Gpu> gpus = ask_driver(reason);
  if (why != nullptr) *why = reason;
  return gpus;
}

const std::vector<Gpu>& find_gpus(std::string* why) {
  static std::string reason;
  static const std::vector<Gpu> gpus = ask_driver_in_a_child(reason);
  if (why != nullptr) *why = reason;
  return gpus;
}

std::string describe_gpu(int device) {
  const Gpu& gpu = find_gpus().at(static_cast<std::size_t>(device));
  std::string text = fmt::format("{} ({})", gpu.name, gpu.architecture());
  char version[96] = "";
  if (nvml().call("nvmlSystemGetDriverVersion", &version[0], static_cast<unsigned>(sizeof version)) == 0)
    text += fmt::format(", driver {}", version);
  int cuda_version = 0;
  if (cuda().call("cuDriverGetVersion", &cuda_version) == 0)
    text += fmt::format(", CUDA {}.{}", cuda_version / 1000, cuda_version % 1000 / 10);
  void* handle = nullptr;
  if (nvml().call("nvmlDeviceGetHandleByPciBusId_v2", gpu.pci_bus.c_str(), &handle) != 0) return text;
  for (const auto& [clock, name] : {std::pair{kSmClock, "SM"}, std::pair{kMemoryClock, "memory"}}) {
    unsigned now = 0, most = 0;
    if (nvml().call("nvmlDeviceGetClockInfo", handle, clock, &now) == 0 &&
        nvml().call("nvmlDeviceGetMaxClockInfo", handle, clock, &most) == 0)
      text += fmt::format(", {} clock {} of {} MHz", name, now, most);
  }
  return text;
}

}  // namespace braid::codegen::cuda
