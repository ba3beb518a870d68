// All commands with their options: main parses them, and the shell completion and the manual pages are made
// from them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cli/command.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace braid::cli {

class Report;

// `chosen` and `report` receive what the arguments say, and must outlive the tree.
std::unique_ptr<CLI::App> command_tree(Invocation& chosen, Report& report);

// Calls `visit` for the command and all below it, parents first.
void for_each_command(const CLI::App& command, const std::function<void(const CLI::App&)>& visit);

// Its options as a user writes them: "-o", "--output"; positional ones are not among them.
std::vector<std::string> names_of(const CLI::Option& option);

}  // namespace braid::cli
