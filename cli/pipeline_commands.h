// The subcommands of braid pipeline that have their own files.
#pragma once

#include "cli/command.h"

namespace braid::cli {

void add_pipeline_lower(CLI::App& pipeline, Invocation& chosen);
void add_pipeline_check(CLI::App& pipeline, Invocation& chosen);
void add_pipeline_simulate(CLI::App& pipeline, Invocation& chosen);
void add_pipeline_search(CLI::App& pipeline, Invocation& chosen);

}  // namespace braid::cli
