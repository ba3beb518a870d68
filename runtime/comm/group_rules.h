// Checks and messages about groups that all engines share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/status.h"

namespace braid::rt {

inline constexpr size_t kMaxGroupName = 63;

// invalid_argument if `ranks` are not distinct ranks of a World of this size, or the name is too long.
Status check_group(std::span<const int> ranks, std::string_view name, int world_size);

// The key of a group: a hash of its name, its members and the number of equal groups made before. It is equal
// on all members.
uint64_t group_key(std::string_view name, std::span<const int> members, uint32_t occurrence);

// A member's arguments to Communicator::compare_fingerprint.
struct FingerprintView {
  uint64_t hash;
  const char* text;
};
// Empty if all are equal; otherwise two differing sides with their ranks and texts.
std::string fingerprint_difference(std::string_view group, std::span<const int> members,
                                   std::span<const FingerprintView> prints);

}  // namespace braid::rt
