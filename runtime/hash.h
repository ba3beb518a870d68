// Hashes that name things across processes: the same on every machine and in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace braid::rt {

// FNV-1a, 64 bits. `hash` continues an earlier one.
constexpr uint64_t kHashBegin = 14695981039346656037ull;

inline uint64_t fnv1a(const void* data, size_t bytes, uint64_t hash = kHashBegin) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (size_t k = 0; k < bytes; ++k) hash = (hash ^ p[k]) * 1099511628211ull;
  return hash;
}
inline uint64_t fnv1a(std::string_view text, uint64_t hash = kHashBegin) {
  return fnv1a(text.data(), text.size(), hash);
}

}  // namespace braid::rt
