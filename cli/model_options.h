// The options of compiling (driver/option_table.h) as options of the subcommands that take a model.
#pragma once

#include <string_view>

#include "cli/command_line.h"
#include "cli/report.h"
#include "driver/model_options.h"

namespace braid::cli {

// Adds the options that all these subcommands share, except the one called `without`.
void add_options(Command command, ModelOptions& options, std::string_view without = {});
// Adds the option of this name.
void add_option(Command command, ModelOptions& options, std::string_view name);

// The same as options.compile_options(). --print-after prints through the report, which must outlive the
// result.
CompileOptions compile_options(const ModelOptions& options, const Report& report);
// UserError BR0003 if MODEL is IR text and options are given that apply only to models (--dim, --alias): a
// text has its own dimensions and aliases.
void refuse_for_text(const ModelOptions& options);

}  // namespace braid::cli
