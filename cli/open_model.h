// The MODEL of a subcommand that runs something: the folder of a compiled program, or a model that is
// compiled first.
#pragma once

#include <memory>
#include <optional>

#include "cli/model_options.h"
#include "cli/report.h"
#include "codegen/temp_dir.h"
#include "harness/program.h"

namespace braid::cli {

struct OpenedModel {
  std::shared_ptr<const harness::Program> program;
  std::optional<ir::Schedule> schedule;  // if it was compiled from a model
};

// A model is compiled into `temporary`, which must outlive the result. UserError if a compiled program is not
// for the given --ranks.
OpenedModel open_model(const ModelOptions& options, harness::DeviceChoice device,
                       const codegen::TempDir& temporary, const Report& report);

}  // namespace braid::cli
