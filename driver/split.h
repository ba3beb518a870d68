// Splits a plain model over devices: candidates of the search are compiled through all passes and simulated
// with overlap, and the one with the shortest step is taken.
#pragma once

#include <memory>
#include <optional>

#include "driver/compile_options.h"
#include "driver/split_report.h"
#include "frontend/import.h"
#include "ir/schedule.h"

namespace braid {

// How the model is imported.
struct ChosenSplit {
  std::shared_ptr<frontend::PlainModel> model;  // read already
  int ranks = 1;
  std::shared_ptr<const frontend::sharding::SplitRequest> request;  // null: it is not split
  // The program as it was priced; absent if it was priced without weights that it needs.
  std::optional<ir::Schedule> program;
};

// Chooses a split as options.split asks: the plan given, or the best on exactly the ranks given, or on as
// many of the devices as make the step shortest. Throws the UserErrors of the import; BR0484 if the options
// contradict each other or the plan; BR0487 if the ranks do not divide the model; BR0488 if no plan fits the
// memory; BR0489 if the chosen plan is not strict.
ChosenSplit choose_split(const CompileOptions& options, SplitReport& report);

}  // namespace braid
