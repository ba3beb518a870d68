// The head of weights.bin and weights.rank<r>.bin. The tensors follow at offsets that the program knows.
#pragma once

#include <cstdint>

namespace braid::rt {

struct WeightFileHeader {
  char magic[8];         // kWeightMagic
  uint32_t version;      // kWeightVersion
  int32_t rank;          // -1: shared by all ranks
  uint64_t fingerprint;  // of the program that it belongs to
  uint64_t bytes;        // of the file, head included
  uint8_t reserved[32];
};
static_assert(sizeof(WeightFileHeader) == 64);

inline constexpr char kWeightMagic[8] = {'B', 'R', 'A', 'I', 'D', 'W', 'T', 'S'};
inline constexpr uint32_t kWeightVersion = 1;
inline constexpr int64_t kWeightAlignment = 64;

}  // namespace braid::rt
