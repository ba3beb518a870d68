#include "driver/split.h"

#include <utility>

#include "driver/split_explanations.h"
#include "driver/split_programs.h"
#include "driver/split_refusals.h"
#include "driver/split_request.h"
#include "driver/split_search.h"

namespace braid {

ChosenSplit choose_split(const CompileOptions& options, SplitReport& report) {
  check_split_request(options);
  const SplitOptions& split = options.split;
  SplitPrograms programs(options);
  report = {};
  report.model = options.model;
  report.sizes = programs.all()[0].sizes;
  SplitSearch search(programs, report);
  if (split.plan_file.empty()) {
    search.run();
  } else {
    search.use_plan();
  }
  SplitTrials& trials = search.trials();
  if (!trials.best()) {
    // A stage takes less memory than the whole model.
    if (search.over_limit() && split.explain) find_pipelines(programs, report);
    refuse_all(programs, search, report);
  }
  if (split.strict) require_strict(options, report);
  if (split.explain) {
    explain_choice(programs, trials.best()->search, report);
    find_pipelines(programs, report);
  }
  ChosenSplit chosen{programs.all()[0].model, report.chosen_one()->ranks, nullptr, std::nullopt};
  // Candidates are priced without their weights.
  if (split.weights && split.plan_file.empty() && chosen.ranks > 1) {
    chosen.request = frontend::sharding::plan_request(report.plan.text, "");
  } else {
    chosen.program = std::move(trials.best()->program);
  }
  return chosen;
}

}  // namespace braid
