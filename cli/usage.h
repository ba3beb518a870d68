// Says what is wrong with a command line that CLI11 refuses, and what was probably meant.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace braid::cli {

// BR0014.
ir::UserError usage_error(const CLI::App& app, const CLI::ParseError& error);

// The command that the arguments chose: the innermost one.
const CLI::App& chosen_command(const CLI::App& app);
// "braid pipeline show"
std::string command_path(const CLI::App& command);

// BR0014: the command has none of this name.
[[noreturn]] void unknown_command(const CLI::App& at, const std::string& word);

}  // namespace braid::cli
