// The subcommands of braid pipeline that have files of their own.
#pragma once

#include "cli/command.h"

namespace braid::cli {

void add_pipeline_search(CLI::App& pipeline, Action& chosen);

}  // namespace braid::cli
