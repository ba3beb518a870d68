// What every engine asks of a group, and says of it, in the same words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/status.h"

namespace braid::rt {

inline constexpr size_t kMaxGroupName = 63;

// invalid_argument where `ranks` are not distinct ranks of a World of this size, or the name is too long.
Status check_group(std::span<const int> ranks, std::string_view name, int world_size);

// Of a group by its name, its members, and how many with both the same have been made before: equal on all
// members.
uint64_t group_key(std::string_view name, std::span<const int> members, uint32_t occurrence);

// What a member gave to Communicator::compare_fingerprint.
struct FingerprintView {
  uint64_t hash;
  const char* text;
};
// Empty where all are equal; else the ranks of two sides that differ, with their texts.
std::string fingerprint_difference(std::string_view group, std::span<const int> members,
                                   std::span<const FingerprintView> prints);

}  // namespace braid::rt
