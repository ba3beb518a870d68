#include "driver/split_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/measure.h"
#include "driver/optimise.h"
#include "ir/error.h"

namespace braid {

using frontend::sharding::plan_request;
using split::FoundPlan;

namespace {

// Weights, inputs, outputs and planned memory of a rank.
std::int64_t bytes_of_rank(const ir::Schedule& schedule) {
  std::int64_t bytes = schedule.plan ? schedule.plan->arena_bytes + schedule.plan->comm_bytes : 0;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind == ir::StorageKind::constant || storage.kind == ir::StorageKind::input ||
        storage.kind == ir::StorageKind::output)
      bytes += ir::bounds(storage.bytes).max;
  }
  return bytes;
}

// Imports the programs without the weights that prices do not need. A plan that was given is imported as the
// options ask, since the result is the program that is compiled.
void import_programs(const SplitPrograms& programs, const FoundSplit& found,
                     std::vector<ir::Schedule>& imported) {
  const SplitOptions& split = programs.options().split;
  for (const SplitPrograms::Program& program : programs.all()) {
    const FoundPlan& plan = imported.empty() ? found.plan : found.plan.with.at(imported.size() - 1);
    std::shared_ptr<const frontend::sharding::SplitRequest> request;
    if (!found.search) {
      request = plan_request(plan.text, split.plan_file, split.weights);
    } else if (found.ranks > 1) {
      request = plan_request(plan.text, "", false);
    }
    imported.push_back(program.model->lower(found.ranks, request.get()));
  }
}

}  // namespace

void SplitTrials::consider(FoundSplit found, LimitOutcome& outcome) {
  const FoundPlan& plan = found.plan;
  SplitCandidate candidate;
  candidate.ranks = found.ranks;
  candidate.name = plan.name;
  candidate.plan = plan.text;
  candidate.predicted = plan.predicted;
  candidate.bound = plan.bound;
  candidate.proved = plan.proved;
  candidate.floor = plan.floor;
  const SplitCandidate* best = report_.chosen_one();
  candidate.skipped = best != nullptr && best->simulated < candidate.floor;
  std::vector<ir::Schedule> imported;
  if (!candidate.skipped) {
    try {
      import_programs(programs_, found, imported);
      simulate(found, imported, candidate);
      if (!candidate.skipped) hold_to_limit(plan, candidate, outcome);
    } catch (const ir::UserError& error) {
      // A plan or a number of ranks that was asked for explicitly has one error.
      if (imported.empty()) throw;
      candidate.refused = error.message();
    }
  }
  const int best_number = best == nullptr ? 0 : numbers_[static_cast<std::size_t>(report_.chosen)];
  const bool better = candidate.ran() && (best == nullptr || std::pair(candidate.simulated, found.number) <
                                                                 std::pair(best->simulated, best_number));
  outcome.fits = outcome.fits || candidate.ran() || candidate.skipped;
  report_.candidates.push_back(std::move(candidate));
  numbers_.push_back(found.number);
  if (!better) return;
  report_.chosen = static_cast<int>(report_.candidates.size()) - 1;
  report_.plan = std::move(found.plan);
  best_ = {std::move(imported[0]), std::move(found.search)};
}

// Returns the step time beyond which another candidate changes nothing (SplitReport::useful). Passes must
// see the times that are compared, so the result is nullopt with a pass list, sizes, other programs or a
// cost file.
std::optional<analysis::Time> SplitTrials::useful(int ranks) const {
  const CompileOptions& options = programs_.options();
  if (options.passes || !options.split.sizes.empty() || programs_.several() || !options.cost_file.empty())
    return std::nullopt;
  return report_.useful(ranks, !split::meshes_of(ranks, 2).empty());
}

void SplitTrials::simulate(const FoundSplit& found, const std::vector<ir::Schedule>& imported,
                           SplitCandidate& candidate) const {
  // A candidate that is refused or skipped on the way has no figures of some of its programs.
  analysis::Time all_steps;
  std::vector<SplitProgram> with;
  for (std::size_t p = 0; p < imported.size(); ++p) {
    const SplitPrograms::Program& program = programs_.all()[p];
    ir::Schedule schedule = imported[p];
    passes::PassContext context = pass_context(programs_.quiet());
    context.useful = useful(found.ranks);
    optimise(schedule, programs_.quiet(), context);
    if (context.at_least) {
      candidate.skipped = true;
      candidate.floor = std::max(candidate.floor, *context.at_least);
      return;
    }
    std::vector<analysis::Time> steps;
    for (const split::PricePoint& point : program.points) {
      steps.push_back(
          analysis::measure(schedule, *point.costs, {.bounds = false, .planned = false}).makespan);
      all_steps.ps += steps.back().ps * point.steps;
    }
    if (p == 0) {
      candidate.at_sizes = std::move(steps);
      candidate.bytes = bytes_of_rank(schedule);
    } else {
      with.push_back({program.file, program.sizes[0], steps[0], bytes_of_rank(schedule)});
    }
  }
  candidate.simulated = all_steps;
  candidate.with = std::move(with);
}

void SplitTrials::hold_to_limit(const FoundPlan& plan, SplitCandidate& candidate, LimitOutcome& outcome) {
  const std::optional<std::int64_t> limit = programs_.limit();
  if (!limit) return;
  std::int64_t most = 0, uncounted = 0;
  const auto add = [&](std::int64_t bytes, const FoundPlan& own) {
    most = std::max(most, bytes);
    if (bytes > *limit && own.counted_bytes > 0) uncounted = std::max(uncounted, bytes - own.counted_bytes);
  };
  add(candidate.bytes, plan);
  for (std::size_t k = 0; k < candidate.with.size(); ++k) add(candidate.with[k].bytes, plan.with[k]);
  if (most <= *limit) return;
  candidate.refused = fmt::format("it takes {} on a device", analysis::format_bytes(most));
  over_limit_ = true;
  if (uncounted > 0 && (outcome.uncounted == 0 || uncounted < outcome.uncounted))
    outcome.uncounted = uncounted;
  if (outcome.missing == 0 || most - *limit < outcome.missing) outcome.missing = most - *limit;
}

void SplitTrials::sort() {
  std::vector<std::size_t> order(report_.candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t k) { return numbers_[k]; });
  std::vector<SplitCandidate> sorted;
  int chosen = -1;
  for (const std::size_t k : order) {
    if (static_cast<int>(k) == report_.chosen) chosen = static_cast<int>(sorted.size());
    sorted.push_back(std::move(report_.candidates[k]));
  }
  report_.candidates = std::move(sorted);
  report_.chosen = chosen;
}

}  // namespace braid
