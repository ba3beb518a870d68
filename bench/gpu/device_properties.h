// Properties that the device reports: the source of the part "gpu" of a machine description
// (analysis/costs/gpu_description.h).
#pragma once

#include <cstdint>
#include <string>

namespace braid::gpu_bundle {

// Returns a JSON object of the current device: name, capability, bytes of memory, and one entry per row of
// the table in device_properties.cc. Empty on the emulated device.
std::string device_properties_json();

struct L2Memory {
  uint64_t l2_bytes = 0, free_bytes = 0;
};
L2Memory l2_and_free_memory();  // of the current device

}  // namespace braid::gpu_bundle
