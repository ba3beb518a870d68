// Texts generated from the tree of commands: shell completion and manual pages.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

// A script for bash: the commands, the options of each, and the values of options with a fixed set of them.
std::string bash_completion(const CLI::App& app);

// The manual page of one command, in roff.
std::string manual_page(const CLI::App& command);
// "braid-pipeline-show.1"
std::string manual_name(const CLI::App& command);

}  // namespace braid::cli
