#include "passes/overlap/split_collectives.h"

#include <fmt/format.h>

#include <map>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "passes/overlap/splitting.h"
#include "passes/pass_context.h"

namespace braid::passes {

using namespace analysis;

void SplitCollectives::check_options() const {
  if ((chunks == 0) == (max_bytes == 0)) {
    ir::user_error(errors::kCollectivePieces, {.node = std::string(kName)},
                   chunks == 0 ? "exactly one of chunks and max_bytes must be given, got neither"
                               : "exactly one of chunks and max_bytes must be given, got both",
                   "split_collectives{chunks=K} or split_collectives{max_bytes=N}");
  }
  constexpr std::int64_t kMostChunks = 1024;
  if (max_bytes < 0 || min_bytes < 0 || (max_bytes == 0 && (chunks < 2 || chunks > kMostChunks))) {
    ir::user_error(
        errors::kCollectivePieceCount, {.node = std::string(kName)},
        fmt::format("chunks={}, max_bytes={}, min_bytes={}", chunks, max_bytes, min_bytes),
        fmt::format("use chunks from 2 to {}, max_bytes from 1 and min_bytes from 0 on", kMostChunks));
  }
}

bool SplitCollectives::run(ir::Schedule& schedule, PassContext& context) {
  check_options();
  const auto analysis = analyse(schedule, context, {.channel_order = has_point_to_point(schedule)});
  const Problem& problem = analysis->problem;
  if (problem.collectives.empty()) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  const Measurement before =
      measure(schedule, problem, analysis->memory, identity_order(problem.nodes()), cheap);

  const Splitter splitter(schedule, problem, *context.costs);
  std::vector<Split> splits;
  std::map<std::string, Limit> limits;  // by name of the collective
  for (const CollectiveId c : problem.collectives.ids()) {
    if (splitter.payload(c) < min_bytes) continue;
    std::string why;
    Split split = splitter.split(c, {.chunks = static_cast<int>(chunks), .max_bytes = max_bytes}, &why);
    if (split.parts.empty()) {
      if (!why.empty()) {
        limits[schedule.graph[problem.collectives[c].op].name] = {LimitReason::form, std::move(why), -1, 0};
      }
      continue;
    }
    splits.push_back(std::move(split));
  }
  ir::Schedule made;
  std::int64_t planned = 0;
  Position step;
  if (!splits.empty()) {
    made = schedule;
    split_collectives(made, problem, splits);
    if (context.memory_cap) {
      const MemoryModel memory(made);
      const Order in_order = identity_order(nodes_of(made));
      planned = memory.planned_bytes(in_order);
      step = memory.live(in_order).peak_step;
    }
  }
  const bool changed = !splits.empty() && (!context.memory_cap || planned <= *context.memory_cap);
  if (changed) {
    schedule = std::move(made);
    context.analysis.reset();
  } else if (!splits.empty()) {
    for (const CollectiveReport& c : before.collectives)
      limits.try_emplace(c.name, Limit{LimitReason::memory, {}, step.index, planned - *context.memory_cap});
  }
  OverlapReport report =
      make_report(std::string(kName), before, changed ? measure(schedule, *context.costs, cheap) : before);
  for (CollectiveReport& c : report.collectives) {
    if (const auto it = limits.find(c.name); it != limits.end()) c.limit = it->second;
  }
  context.reports.push_back(std::move(report));
  return changed;
}

}  // namespace braid::passes
