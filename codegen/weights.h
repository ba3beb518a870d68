// The layout of constants in the weight files of a program: weights.bin holds those that all ranks share,
// weights.rank<r>.bin those that differ. All targets use the same layout.
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
  std::map<ir::StorageId, WeightPlace> places;  // for every constant storage that the program touches
  std::vector<ir::StorageId> order;             // of their places in the files
  std::int64_t shared_bytes = 0;                // of the files, including headers and checksums; 0: no file
  std::int64_t rank_bytes = 0;
  std::vector<std::vector<std::uint64_t>>
      checksums;  // of the blocks of each file, as weight_files names them
};

// Places the constants `used`, in order. User error BR0602 if the bytes of one are unknown.
WeightLayout layout_weights(const ir::Graph& graph, const std::vector<ir::StorageId>& used);

// Puts the required weight files into `dir`: hard links to those in the folder `published` that hold the same
// bytes, else new files. Throws user error BR0010 on failure.
void write_weights(const ir::Graph& graph, const WeightLayout& layout, std::uint64_t id,
                   const std::string& dir, const std::string& published = {});

// Identifies a program: a hash of its source (without the id) and its weights. Never 0.
std::uint64_t compilation_id(const std::string& source, const WeightLayout& layout);

// The names of the files, in the order of writing.
std::vector<std::string> weight_files(const ir::Graph& graph, const WeightLayout& layout);

}  // namespace braid::codegen
