// The MODEL of a subcommand that runs something: the folder of a compiled program, or a model that is
// compiled first.
#pragma once

#include <optional>

#include "cli/execute.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "codegen/temp_dir.h"

namespace braid::cli {

struct OpenedModel {
  ProgramFiles files;
  ProgramInterface table;
  std::optional<ir::Schedule> schedule;  // if it was compiled from a model
};

// A model is compiled into `temporary`, which must outlive the result. UserError if a compiled program is not
// for the given --ranks.
OpenedModel open_model(const ModelOptions& options, DeviceChoice device, const codegen::TempDir& temporary,
                       const Report& report);

}  // namespace braid::cli
