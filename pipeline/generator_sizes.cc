#include "pipeline/generator_sizes.h"

#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/validate.h"

namespace braid::pipeline {

void refuse_sizes(std::string_view name, const GeneratorOptions& o, std::string_view what) {
  ir::user_error(errors::kScheduleSizes, {},
                 fmt::format("{} with {} ranks, {} stages and {} micro-batches: {}", name, o.ranks, o.stages,
                             o.microbatches, what),
                 "braid pipeline generate --list shows the valid sizes of each schedule");
}

void check_sizes(std::string_view name, const GeneratorOptions& o, std::int32_t local_stages) {
  if (o.ranks < 1) refuse_sizes(name, o, "it requires at least one rank");
  if (o.microbatches < 1) refuse_sizes(name, o, "it requires at least one micro-batch");
  if (o.stages < o.ranks) refuse_sizes(name, o, "there are more ranks than stages");
  if (o.stages % o.ranks != 0) refuse_sizes(name, o, "the stages cannot be divided evenly among the ranks");
  if (local_stages != 0 && o.stages / o.ranks != local_stages) {
    refuse_sizes(name, o,
                 local_stages == 1 ? "it requires one stage per rank" : "it requires two stages per rank");
  }
  // The number of idle cells that a rank may have for each of its stages.
  const std::int64_t idle = 4 * std::int64_t{o.ranks};
  if (o.stages >= kMostStageMicrobatches / (o.microbatches + idle)) {
    ir::user_error(
        errors::kScheduleTooLarge, {},
        fmt::format("{} with {} ranks, {} stages and {} micro-batches has too many cells", name, o.ranks,
                    o.stages, o.microbatches),
        fmt::format("stages * (micro-batches + 4 * ranks) must be below {}", kMostStageMicrobatches));
  }
}

PipelineSchedule empty_schedule(const GeneratorOptions& options, RankOfStage rank_of_stage) {
  return {std::move(rank_of_stage), PerRank<Row>(first_ids<int>(options.ranks)), options.microbatches};
}

void append_idle(Row& row, int cells) {
  if (cells > 0) row.resize(row.size() + ir::offset_of(cells));
}

Row row_after_idle(int idle, int cells) {
  Row row;
  row.reserve(ir::offset_of(idle + cells));
  append_idle(row, idle);
  return row;
}

}  // namespace braid::pipeline
