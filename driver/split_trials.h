// Trials of found plans: each is compiled through all passes and simulated, and the one with the shortest
// steps is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/smaller_limits.h"
#include "driver/split_programs.h"
#include "driver/split_report.h"
#include "ir/schedule.h"

namespace braid {

// A plan for all programs.
struct FoundSplit {
  // The search that found it.
  struct Search {
    split::Mesh mesh;
    bool obey = false;                   // whether it must split
    std::optional<std::int64_t> memory;  // the limit; less than that of a device for smaller plans
  };
  int ranks = 1;
  split::FoundPlan plan;
  int number = 0;                // in the order of ranks and of the search's variants
  std::optional<Search> search;  // nullopt: the plan was given
};

class SplitTrials {
 public:
  // Both must outlive this. Adds candidates to the report, and chooses one of them.
  SplitTrials(SplitPrograms& programs, SplitReport& report) : programs_(programs), report_(report) {}

  // Compiles and simulates it, unless it cannot be the shortest. Of equal plans the one found first is kept.
  // Throws the UserErrors of the import; those of the passes are reasons to refuse the plan.
  void consider(FoundSplit found, LimitOutcome& outcome);
  // Lists the candidates in the order in which they were found, not tried.
  void sort();

  struct Best {
    ir::Schedule program;  // the compiled one, as it was imported
    std::optional<FoundSplit::Search> search;
  };
  std::optional<Best>& best() { return best_; }
  bool over_limit() const { return over_limit_; }  // whether the limit of memory refused a plan

 private:
  std::optional<analysis::Time> useful(int ranks) const;
  void simulate(const FoundSplit& found, const std::vector<ir::Schedule>& imported,
                SplitCandidate& candidate) const;
  void hold_to_limit(const split::FoundPlan& plan, SplitCandidate& candidate, LimitOutcome& outcome);

  SplitPrograms& programs_;
  SplitReport& report_;
  std::vector<int> numbers_;  // of the candidates
  std::optional<Best> best_;
  bool over_limit_ = false;
};

}  // namespace braid
