// Where constants lie in the weight files of a program: weights.bin holds those that all ranks share,
// weights.rank<r>.bin those that differ. The same layout serves all targets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

struct WeightPlace {
  bool per_rank = false;
  std::int64_t offset = 0;  // in its file
  std::int64_t bytes = 0;
};

struct WeightLayout {
  std::map<ir::StorageId, WeightPlace> places;  // of every constant storage that the program touches
  std::int64_t shared_bytes = 0;                // of the files, heads and checksums included; 0: no file
  std::int64_t rank_bytes = 0;
  std::vector<std::vector<std::uint64_t>>
      checksums;  // of the blocks of each file, as weight_files names them
};

// Places the constants `used`, in order. A user error (BR0602) where the bytes of one are not known.
WeightLayout layout_weights(const ir::Graph& graph, const std::vector<ir::StorageId>& used);

// Writes weights.bin and weights.rank<r>.bin, as far as there are any, into `dir`. User error BR0010 on
// failure.
void write_weights(const ir::Graph& graph, const WeightLayout& layout, std::uint64_t id,
                   const std::string& dir);

// Names a program: a hash of what is in it, its source (without the id) and its weights. Never 0.
std::uint64_t compilation_id(const std::string& source, const WeightLayout& layout);

// The names of the files, in the order in which they are written.
std::vector<std::string> weight_files(const ir::Graph& graph, const WeightLayout& layout);

}  // namespace braid::codegen
