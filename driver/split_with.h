// The programs that are split together with the compiled one (SplitOptions::with). driver/split.cc holds the
// compiled one itself.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "driver/split_report.h"
#include "frontend/import.h"
#include "split/candidates.h"
#include "split/mesh.h"
#include "split/shared_tensors.h"

namespace braid {

class SplitPrograms {
 public:
  // Reads them. UserErrors of the import; BR0484 and BR0494 for requests that name no other program.
  // `quiet` are the options with which candidates are compiled; both must outlive this.
  SplitPrograms(const CompileOptions& options, const CompileOptions& quiet, const analysis::CostModel& costs);

  bool empty() const { return programs_.empty(); }
  // Looks at the plain programs; must be called before the functions below.
  void prepare();
  // Finds plans of `first` together with plans of the others. `costs` and `options` are those of `first`. The
  // others have their own costs, steps and aliases, the same other options, and no lines that are kept.
  split::FoundPlans find_plans(frontend::PlainModel& first,
                               const std::shared_ptr<const analysis::CostModel>& costs,
                               const split::SearchOptions& options, const split::Mesh& mesh);
  // Returns a lower bound on the time of all steps of these programs together on so many ranks.
  analysis::Time least_time(int ranks, const split::SearchOptions& options);

  // The programs of a plan (FoundPlan::with) on so many ranks.
  std::vector<ir::Schedule> lower(int ranks, const split::FoundPlan& plan);
  // Compiles and simulates them.
  std::vector<SplitProgram> measure(std::vector<ir::Schedule> schedules) const;

  // The tensors that the programs share with the first one; only after find_plans.
  const split::SharedTensors& shared() const { return *shared_; }

 private:
  struct Program {
    explicit Program(const SplitWith& asked);
    const SplitWith& with;
    frontend::PlainModel model;
    split::PricePoint point;
    std::vector<split::ProductJoin> joins;
  };
  split::SearchOptions options_of(const Program& program, const split::SearchOptions& first) const;

  const CompileOptions &options_, &quiet_;
  std::deque<Program> programs_;
  std::optional<split::SharedTensors> shared_;
};

// UserError BR0484 for sizes that the dimensions of a model do not have.
void check_sizes(const StepSizes& sizes, const std::map<std::string, ir::Bounds>& dims,
                 const std::string& model, const SplitOptions& split, const char* name);
// Weights, inputs, outputs and planned memory of a rank.
std::int64_t bytes_of_rank(const ir::Schedule& schedule);

}  // namespace braid
