// What the device says of itself, of which the part "gpu" of a machine description is made (analysis/costs/gpu_description.h).
#pragma once

#include <cstdint>
#include <string>

namespace braid::gpu_bundle {

// A JSON object: name, capability, bytes of memory, and one entry per row of the table in device_properties.cc. Of the current device;
// empty on the emulated one.
std::string device_properties_json();

struct L2Memory {
  uint64_t l2_bytes = 0, free_bytes = 0;
};
L2Memory l2_and_free_memory();  // of the current device

}  // namespace braid::gpu_bundle
