// Hashes that identify things across processes: equal on every machine and in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
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

// A checksum of a block of memory: eight lanes of 64-bit words. Each step is invertible, so a single changed
// word always changes the checksum. As fast as memory is read.
__attribute__((no_sanitize("thread"))) inline uint64_t checksum(const void* data, size_t bytes) {
  constexpr uint64_t kFactor = 0x9e3779b185ebca87;
  constexpr size_t kLanes = 8;
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t lanes[kLanes] = {};
  uint64_t words[kLanes];
  const auto mix = [](uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kFactor;
    return hash << 31 | hash >> 33;
  };
  size_t at = 0;
  for (; at + sizeof words <= bytes; at += sizeof words) {
    std::memcpy(words, p + at, sizeof words);
#pragma GCC unroll 8
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = mix(lanes[k], words[k]);
  }
  std::memset(words, 0, sizeof words);
  if (at < bytes) std::memcpy(words, p + at, bytes - at);
  uint64_t hash = bytes;
  for (size_t k = 0; k < kLanes; ++k) hash = mix(hash, mix(lanes[k], words[k]));
  return hash;
}

}  // namespace braid::rt
