// The environment variables of the emulated device and their valid values (options.h gives their meaning), so
// that a program can check them before it uses the device.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "runtime/read_number.h"

namespace braid::emulated {

struct Variable {
  const char* name;
  int64_t min, max;
};

inline constexpr Variable kDevices{"BRAID_EMULATED_DEVICES", 1, 1024};
inline constexpr Variable kMemoryMb{"BRAID_EMULATED_MEMORY_MB", 1, int64_t{1} << 40};
inline constexpr Variable kTimeoutMs{"BRAID_EMULATED_TIMEOUT_MS", 1, 1'000'000'000'000};
inline constexpr Variable kHangMs{"BRAID_EMULATED_HANG_MS", 1, 1'000'000'000'000};
inline constexpr Variable kDelayUs{"BRAID_EMULATED_DELAY_US", 0, 1'000'000'000};
inline constexpr Variable kSeed{"BRAID_EMULATED_SEED", 0, std::numeric_limits<int64_t>::max()};
inline constexpr Variable kDeterministic{"BRAID_EMULATED_DETERMINISTIC", 0, 1};
inline constexpr Variable kSharedKb{"BRAID_EMULATED_SHARED_KB", 48, 227};
inline constexpr Variable kSymmetric{"BRAID_EMULATED_SYMMETRIC", 0, 1};
inline constexpr Variable kCheck{"BRAID_EMULATED_CHECK", 0, 1};
inline constexpr Variable kPrint{"BRAID_EMULATED_PRINT", 0, 1};
inline constexpr Variable kVariables[] = {kDevices,       kMemoryMb, kTimeoutMs, kHangMs, kDelayUs, kSeed,
                                          kDeterministic, kSharedKb, kSymmetric, kCheck,  kPrint};

// Sets *out if the variable is set and not empty. Returns what is wrong with its value, or an empty string.
inline std::string read_variable(const Variable& variable, int64_t* out) {
  const char* text = std::getenv(variable.name);
  if (text == nullptr || *text == '\0') return {};
  if (rt::read_number(text, variable.min, variable.max, out)) return {};
  return std::string(variable.name) + "='" + text + "' is not a number from " + std::to_string(variable.min) +
         " to " + std::to_string(variable.max);
}

}  // namespace braid::emulated
