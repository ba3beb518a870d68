// What all generators check before they begin, and the rows that they fill.
#pragma once

#include <string_view>

#include "pipeline/generators.h"

namespace braid::pipeline {

// Ranks and micro-batches of 1 at least, stages a multiple of the ranks, no overflow; `local_stages`: exactly
// that many per rank (0: any number). Throws BR0809 or BR0810.
void check_sizes(std::string_view name, const GeneratorOptions& options, std::int32_t local_stages);

// Throws BR0809: "NAME with P ranks, S stages and M micro-batches: what".
[[noreturn]] void refuse_sizes(std::string_view name, const GeneratorOptions& options, std::string_view what);

// Rows without cells.
Schedule empty_schedule(const GeneratorOptions& options, std::vector<std::int32_t> rank_of_stage);

inline void append_idle(Row& row, std::int32_t cells) {
  if (cells > 0) row.insert(row.end(), static_cast<std::size_t>(cells), Action{});
}

}  // namespace braid::pipeline
