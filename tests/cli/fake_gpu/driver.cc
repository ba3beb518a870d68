// NVIDIA's driver and its management library, as far as codegen/cuda/gpus.cc asks them. It has
// $BRAID_FAKE_GPUS GPUs.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int gpus() {
  const char* count = std::getenv("BRAID_FAKE_GPUS");
  return count == nullptr ? 0 : std::atoi(count);
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return gpus() == 0 ? 100 : 0; }
int cuDriverGetVersion(int* version) { return *version = 13020, 0; }
int cuDeviceGetCount(int* count) { return *count = gpus(), 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int device) {
  return std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device), 0;
}
// The third one is older than the others.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute != 75 && attribute != 76) return 1;
  return *value = attribute != 75 ? 0 : device == 2 ? 8 : 9, 0;
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  return std::snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0", device), 0;
}

int nvmlInit_v2() { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return std::snprintf(version, size, "590.44"), 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  *handle = nullptr;
  return std::strcmp(id, "0000:00:00.0") == 0 ? 0 : 1;
}
int nvmlDeviceGetClockInfo(void*, int clock, unsigned* mhz) { return *mhz = clock == 1 ? 1700 : 2600, 0; }
int nvmlDeviceGetMaxClockInfo(void*, int clock, unsigned* mhz) { return *mhz = clock == 1 ? 1980 : 2619, 0; }
}
