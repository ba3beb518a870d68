// The environment variables of the emulated device and their valid values (options.h gives their meaning), so
// that a program can check them before it uses the device.
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/environment.h"

namespace braid::emulated {

inline constexpr rt::NumberVariable kDevices{"BRAID_EMULATED_DEVICES", 1, 1024};
inline constexpr rt::NumberVariable kMemoryMb{"BRAID_EMULATED_MEMORY_MB", 1, int64_t{1} << 40};
inline constexpr rt::NumberVariable kTimeoutMs{"BRAID_EMULATED_TIMEOUT_MS", 1, 1'000'000'000'000};
inline constexpr rt::NumberVariable kHangMs{"BRAID_EMULATED_HANG_MS", 1, 1'000'000'000'000};
inline constexpr rt::NumberVariable kDelayUs{"BRAID_EMULATED_DELAY_US", 0, 1'000'000'000};
inline constexpr rt::NumberVariable kSeed{"BRAID_EMULATED_SEED", 0, std::numeric_limits<int64_t>::max()};
inline constexpr rt::NumberVariable kDeterministic{"BRAID_EMULATED_DETERMINISTIC", 0, 1};
inline constexpr rt::NumberVariable kSharedKb{"BRAID_EMULATED_SHARED_KB", 48, 227};
inline constexpr rt::NumberVariable kSymmetric{"BRAID_EMULATED_SYMMETRIC", 0, 1};
inline constexpr rt::NumberVariable kMisalignedPointers{"BRAID_EMULATED_MISALIGNED_POINTERS", 0, 1};
inline constexpr rt::NumberVariable kCheck{"BRAID_EMULATED_CHECK", 0, 1};
inline constexpr rt::NumberVariable kCount{"BRAID_EMULATED_COUNT", 0, 1};
inline constexpr rt::NumberVariable kPrint{"BRAID_EMULATED_PRINT", 0, 1};
inline constexpr rt::NumberVariable kVariables[] = {
    kDevices,  kMemoryMb,  kTimeoutMs,          kHangMs, kDelayUs, kSeed, kDeterministic,
    kSharedKb, kSymmetric, kMisalignedPointers, kCheck,  kCount,   kPrint};

}  // namespace braid::emulated
