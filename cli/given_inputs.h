// The inputs of the subcommands that run programs. "inputs" of the JSON says what they are and which are
// random.
#pragma once

#include "cli/model_options.h"
#include "cli/report.h"
#include "harness/inputs.h"

namespace braid::cli {

harness::GivenInputs make_inputs(const harness::ProgramInterface& table, const ModelOptions& model,
                                 const harness::InputOptions& options, Report& report);
// Draws missing inputs also without --random, and then says so on standard error.
harness::GivenInputs make_inputs_or_draw(const harness::ProgramInterface& table, const ModelOptions& model,
                                         harness::InputOptions options, Report& report);

}  // namespace braid::cli
