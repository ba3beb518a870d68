// weights.bin and weights.rank<r>.bin: a header, the tensors at offsets that the program knows, and block
// checksums of the bytes between the two, so that a reader can check just the part that it reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/hash.h"

namespace braid::rt {

struct WeightFileHeader {
  char magic[8];            // kWeightMagic
  uint32_t version;         // kWeightVersion
  int32_t rank;             // -1: shared by all ranks
  uint64_t compilation_id;  // of the program that it belongs to
  uint64_t bytes;           // of the file
  uint64_t tensors_end;     // where the checksums begin
  uint8_t reserved[24];
};
static_assert(sizeof(WeightFileHeader) == 64);

inline constexpr char kWeightMagic[8] = {'B', 'R', 'A', 'I', 'D', 'W', 'T', 'S'};
inline constexpr uint32_t kWeightVersion = 2;
inline constexpr int64_t kWeightAlignment = 64;
inline constexpr uint64_t kWeightBlock = uint64_t{1} << 16;

// Blocks are counted from the end of the header.
constexpr uint64_t weight_blocks(uint64_t tensors_end) {
  return (tensors_end - sizeof(WeightFileHeader) + kWeightBlock - 1) / kWeightBlock;
}

// Reads the header of a file in memory. False if it does not match the file.
inline bool read_weight_header(const void* file, uint64_t bytes, WeightFileHeader* head) {
  if (bytes < sizeof *head) return false;
  std::memcpy(head, file, sizeof *head);
  return std::memcmp(head->magic, kWeightMagic, sizeof kWeightMagic) == 0 &&
         head->version == kWeightVersion && head->bytes == bytes && head->tensors_end >= sizeof *head &&
         head->tensors_end <= bytes &&
         bytes - head->tensors_end == weight_blocks(head->tensors_end) * sizeof(uint64_t);
}

// Whether block `index` of a file with a valid header is unchanged.
inline bool weight_block_intact(const void* file, uint64_t tensors_end, uint64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(file);
  const uint64_t begin = sizeof(WeightFileHeader) + index * kWeightBlock;
  uint64_t written = 0;
  std::memcpy(&written, bytes + tensors_end + index * sizeof written, sizeof written);
  return checksum(bytes + begin, std::min(kWeightBlock, tensors_end - begin)) == written;
}

}  // namespace braid::rt
