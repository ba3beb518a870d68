// The subcommands of braid.
#pragma once

#include <functional>

#include "cli/command_line.h"

namespace braid::cli {

class Report;

// Returns the exit code (cli/exit_codes.h).
using Invocation = std::function<int(Report&)>;

// Each adds one subcommand with its options; selecting it on the command line sets `chosen`. main.cc gives
// all of them --json.
void add_compile(Command app, Invocation& chosen);
void add_run(Command app, Invocation& chosen);
void add_bench(Command app, Invocation& chosen);
void add_test(Command app, Invocation& chosen);
void add_verify(Command app, Invocation& chosen);
void add_inspect(Command app, Invocation& chosen);
void add_check(Command app, Invocation& chosen);
void add_explain(Command app, Invocation& chosen);
void add_opt(Command app, Invocation& chosen);
void add_pipeline(Command app, Invocation& chosen);
void add_ops(Command app, Invocation& chosen);
// `app` is the whole tree.
void add_completion(Command app, Invocation& chosen);
void add_man(Command app, Invocation& chosen);

}  // namespace braid::cli
