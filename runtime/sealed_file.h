// A seal at the end of a file identifies the file and its original contents. Libraries and object files still
// work with it: their readers follow the offsets in the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/hash.h"

namespace braid::rt {

struct Seal {
  char magic[8];      // kSealMagic
  uint64_t id;        // of a library: the compilation that it was made of
  uint64_t bytes;     // before the seal
  uint64_t checksum;  // of these
};
static_assert(sizeof(Seal) == 32);
inline constexpr char kSealMagic[8] = {'B', 'R', 'A', 'I', 'D', 'E', 'N', 'D'};

inline Seal make_seal(std::span<const std::byte> contents, uint64_t id) {
  Seal seal = {{}, id, contents.size(), checksum(contents.data(), contents.size())};
  std::memcpy(seal.magic, kSealMagic, sizeof seal.magic);
  return seal;
}

// nullopt if the file has none. Does not check the contents.
inline std::optional<Seal> seal_of(std::span<const std::byte> file) {
  Seal seal;
  if (file.size() < sizeof seal) return std::nullopt;
  std::memcpy(&seal, file.last(sizeof seal).data(), sizeof seal);
  if (std::memcmp(seal.magic, kSealMagic, sizeof seal.magic) != 0) return std::nullopt;
  return seal;
}

inline bool seal_intact(std::span<const std::byte> file, const Seal& seal) {
  return seal.bytes == file.size() - sizeof seal && seal.checksum == checksum(file.data(), seal.bytes);
}

}  // namespace braid::rt
