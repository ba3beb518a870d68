// The subcommands of braid.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

// Returns the exit code.
using Invocation = std::function<int()>;

// Each adds one subcommand with its options; selecting it on the command line sets `chosen`.
void add_compile(CLI::App& app, Invocation& chosen);
void add_run(CLI::App& app, Invocation& chosen);
void add_bench(CLI::App& app, Invocation& chosen);
void add_test(CLI::App& app, Invocation& chosen);
void add_verify(CLI::App& app, Invocation& chosen);
void add_check(CLI::App& app, Invocation& chosen);
void add_explain(CLI::App& app, Invocation& chosen);
void add_opt(CLI::App& app, Invocation& chosen);
void add_pipeline(CLI::App& app, Invocation& chosen);
void add_ops(CLI::App& app, Invocation& chosen);

}  // namespace braid::cli
