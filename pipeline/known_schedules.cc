#include "pipeline/known_schedules.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/generators.h"

namespace braid::pipeline {
namespace {

bool goes_backward(const PipelineSchedule& schedule) {
  return std::any_of(schedule.rows.begin(), schedule.rows.end(), [](const Row& row) {
    return std::any_of(row.begin(), row.end(), [](Action a) { return is_backward(a.kind); });
  });
}

}  // namespace

std::vector<NamedSchedule> known_schedules(const SearchProblem& p) {
  check(p);
  std::vector<NamedSchedule> out;
  if (p.actions() == 0) return out;
  for (const Generator& generator : generators()) {
    try {
      PipelineSchedule schedule = generator.generate({p.ranks, p.stage_count(), p.microbatches});
      if (schedule.rank_of_stage == p.rank_of_stage && goes_backward(schedule))
        out.push_back({std::string(generator.name), std::move(schedule)});
    } catch (const ir::UserError& e) {
      if (e.code() != errors::kScheduleSizes) throw;
    }
  }
  return out;
}

}  // namespace braid::pipeline
