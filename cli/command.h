// The subcommands of braid.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

class Report;

// Returns the exit code (cli/exit_codes.h).
using Invocation = std::function<int(Report&)>;

// Each adds one subcommand with its options; selecting it on the command line sets `chosen`. main.cc gives
// all of them --json.
void add_compile(CLI::App& app, Invocation& chosen);
void add_run(CLI::App& app, Invocation& chosen);
void add_bench(CLI::App& app, Invocation& chosen);
void add_test(CLI::App& app, Invocation& chosen);
void add_verify(CLI::App& app, Invocation& chosen);
void add_inspect(CLI::App& app, Invocation& chosen);
void add_check(CLI::App& app, Invocation& chosen);
void add_explain(CLI::App& app, Invocation& chosen);
void add_opt(CLI::App& app, Invocation& chosen);
void add_pipeline(CLI::App& app, Invocation& chosen);
void add_ops(CLI::App& app, Invocation& chosen);
// `app` is the whole tree.
void add_completion(CLI::App& app, Invocation& chosen);
void add_man(CLI::App& app, Invocation& chosen);

}  // namespace braid::cli
