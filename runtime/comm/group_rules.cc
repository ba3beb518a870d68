#include "runtime/comm/group_rules.h"

#include <algorithm>
#include <cstdio>

#include "runtime/hash.h"

namespace braid::rt {

Status check_group(std::span<const int> ranks, std::string_view name, int world_size) {
  const auto invalid = [&](const std::string& what) {
    return Status::error(StatusCode::invalid_argument, "group '" + std::string(name) + "': " + what);
  };
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return invalid("a rank is listed twice");
  if (sorted.empty()) return invalid("no ranks");
  if (sorted.front() < 0 || sorted.back() >= world_size)
    return invalid("a rank is not in a World of " + std::to_string(world_size));
  if (name.size() > kMaxGroupName)
    return invalid("the name has more than " + std::to_string(kMaxGroupName) + " characters");
  return {};
}

uint64_t group_key(std::string_view name, std::span<const int> members, uint32_t occurrence) {
  const uint64_t key = fnv1a(members.data(), members.size_bytes(), fnv1a(name));
  return fnv1a(&occurrence, sizeof occurrence, key);
}

std::string fingerprint_difference(std::string_view group, std::span<const int> members,
                                   std::span<const FingerprintView> prints) {
  const auto other = std::find_if(prints.begin(), prints.end(),
                                  [&](const FingerprintView& p) { return p.hash != prints.front().hash; });
  if (other == prints.end()) return {};
  std::string text = "fingerprints of group '" + std::string(group) + "' differ:";
  for (const FingerprintView& side : {prints.front(), *other}) {
    text += "\n  ranks";
    for (size_t m = 0; m < members.size(); ++m) {
      if (prints[m].hash == side.hash) text += " " + std::to_string(members[m]);
    }
    char hex[32];
    std::snprintf(hex, sizeof hex, " (%016llx): ", static_cast<unsigned long long>(side.hash));
    text += std::string(hex) + side.text;
  }
  return text;
}

}  // namespace braid::rt
