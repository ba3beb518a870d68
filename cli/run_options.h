// Options of the subcommands that run programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cli/model_options.h"
#include "harness/compare.h"
#include "harness/execution.h"
#include "harness/inputs.h"

namespace braid::cli {

// --threads --device --ranks-as-threads --ranks-as-processes. The upload of large weights is shown.
void add_execution(Command command, harness::ExecuteOptions& options);
void add_steps(Command command, harness::ExecuteOptions& options);   // --repeat --warmup
void add_inputs(Command command, harness::InputOptions& options);    // --input --random --random-max
void add_tolerance(Command command, harness::Tolerance& tolerance);  // --rtol --atol

// The value of --link for the ranks of a program.
std::optional<rt::LinkPacing> link_pacing(const ModelOptions& options);

// Shows on a status line how much of the weights has reached the devices.
std::function<void(std::uint64_t done, std::uint64_t total)> show_upload();

}  // namespace braid::cli
