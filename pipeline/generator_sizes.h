// The checks common to all generators, and the rows that they fill.
#pragma once

#include <string_view>

#include "pipeline/generators.h"

namespace braid::pipeline {

// Checks that there is at least 1 rank and 1 micro-batch, that stages are a multiple of ranks (exactly
// `local_stages` per rank unless that is 0), and that nothing overflows. Throws BR0809 or BR0810.
void check_sizes(std::string_view name, const GeneratorOptions& options, std::int32_t local_stages);

// Throws BR0809: "NAME with P ranks, S stages and M micro-batches: what".
[[noreturn]] void refuse_sizes(std::string_view name, const GeneratorOptions& options, std::string_view what);

// Rows without cells.
PipelineSchedule empty_schedule(const GeneratorOptions& options, RankOfStage rank_of_stage);

// Appends `cells` idle cells, none if that is negative.
void append_idle(Row& row, int cells);
// A row that begins with `idle` cells and has memory for `cells` more.
Row row_after_idle(int idle, int cells);

}  // namespace braid::pipeline
