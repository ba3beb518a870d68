#include "driver/split_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "analysis/measure.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid {

namespace {

// Whether a program on so many ranks keeps the limit: the search counts fewer bytes than are planned.
bool fits(CompileOptions options, int ranks) {
  options.split.devices = 0;
  options.split.tensor_ranks = ranks;
  options.split.mesh.clear();
  options.split.keep_file.clear();
  SplitReport report;
  SplitPrograms programs(options);
  SplitSearch search(programs, report, true);
  try {
    search.run();
  } catch (const ir::UserError&) {  // the model's sizes cannot be split over so many ranks
    return false;
  }
  return search.trials().best().has_value();
}

[[noreturn]] void refuse_memory(SplitPrograms& programs, const SplitSearch& search,
                                const SplitReport& report) {
  const CompileOptions& options = programs.options();
  const std::int64_t limit = *programs.limit();
  std::string why;
  int tried = 1;
  for (const SplitMesh& mesh : report.meshes) tried = std::max(tried, mesh.ranks);
  for (const std::string& mesh : search.too_small()) why += "\n    " + mesh;
  for (const SplitCandidate& c : report.candidates)
    why += fmt::format("\n    {}, {}: {}", count_of_ranks(c.ranks), c.name, c.refused);
  int enough = tried;
  do {
    programs.with_graph([&](const split::Graph& graph) {
      enough = split::next_ranks_within(graph, enough, limit, programs.costs(),
                                        programs.search_options(options.split.tensor_ranks > 0));
    });
  } while (enough > 0 && !fits(options, enough));
  std::string hint = fmt::format("raise {}, or try a mesh of several axes ({})",
                                 options.option("memory-limit"), options.option("mesh"));
  if (enough > 0) {
    hint = fmt::format("{} ranks would do ({})", enough, options.option("tp", std::to_string(enough)));
  } else if (tried < split::kMostRanksWithin) {
    hint = fmt::format("no number of ranks from {} to {} was found that would do along one axis: {}",
                       tried + 1, split::kMostRanksWithin, hint);
  }
  ir::user_error(errors::kSplitMemory, {.file = options.model},
                 fmt::format("no plan fits into {} of a device:{}", analysis::format_bytes(limit), why),
                 hint);
}

}  // namespace

void refuse_all(SplitPrograms& programs, const SplitSearch& search, const SplitReport& report) {
  if (search.over_limit()) refuse_memory(programs, search, report);
  std::string why;
  for (const SplitCandidate& c : report.candidates)
    why += fmt::format("\n    {}: {}", count_of_ranks(c.ranks), c.refused);
  ir::user_error(errors::kSplitRequest, {.file = programs.options().model},
                 "none of the splits that were tried compiles:" + why, "allow other numbers of devices");
}

void require_strict(const CompileOptions& options, const SplitReport& report) {
  const SplitCandidate& chosen = *report.chosen_one();
  if (chosen.ranks == 1) return;
  std::string found;
  for (const split::PlanReplicated& r : report.plan.replicated) {
    if (!r.ruled)
      found += fmt::format("\n    {} {} computed whole on every rank: {}", r.nodes, r.op, r.reason);
  }
  for (const split::PlanConversion& c : report.plan.conversions) {
    const double share = 100.0 * static_cast<double>(c.cost.ps) / static_cast<double>(chosen.simulated.ps);
    if (share > options.split.conversion_share)
      found += fmt::format("\n    '{}': {} -> {} takes {:.3f} us, {:.1f} % of the step", c.value, c.from,
                           c.to, c.cost.us(), share);
  }
  if (found.empty()) return;
  ir::user_error(
      errors::kNotStrict, {.file = options.model},
      fmt::format("the split over {} ranks is not strict:{}", chosen.ranks, found),
      fmt::format("leave out {}, or raise {}", options.option("strict"), options.option("conversion-share")));
}

}  // namespace braid
