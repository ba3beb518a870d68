// The subcommands of braid pipeline that have their own files.
#pragma once

#include "cli/command.h"

namespace braid::cli {

void add_pipeline_lower(Command pipeline, Invocation& chosen);
void add_pipeline_check(Command pipeline, Invocation& chosen);
void add_pipeline_simulate(Command pipeline, Invocation& chosen);
void add_pipeline_search(Command pipeline, Invocation& chosen);

}  // namespace braid::cli
