#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/inputs.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& command, const std::string& group = {}) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (!group.empty() && option->get_group() != group) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  ir::user_error(errors::kNotUnderstood, {}, message, hint);
}

[[noreturn]] void unknown_option(const CLI::App& at, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string near = harness::nearest(name, option_names(at));
  std::string hint = fmt::format("'{} --help' lists its options", command_path(at));
  if (!near.empty()) {
    const std::string group = at.get_option(near)->get_group();
    hint = fmt::format("did you mean {}? {}: {}", near, group, fmt::join(option_names(at, group), ", "));
  }
  refuse(fmt::format("{} has no option '{}'", command_path(at), name), hint);
}

constexpr const char* kQuotePasses = "a shell splits name{a=1,b=2}: quote it, or write --passes name:a=1:b=2";

// How often --passes is given.
std::size_t pass_lists(const CLI::App& at) {
  const CLI::Option* passes = at.get_option_no_throw("--passes");
  return passes == nullptr ? 0 : passes->count();
}

[[noreturn]] void extra_argument(const CLI::App& at, const std::string& word) {
  refuse(fmt::format("{} takes no argument '{}'", command_path(at), word),
         pass_lists(at) > 0 ? kQuotePasses : fmt::format("'{} --help' says what it takes", command_path(at)));
}

// Not the page of examples, but the first.
std::string example(const CLI::App& at) {
  const std::string footer = at.get_footer();
  const std::size_t begin = footer.find("braid ");
  if (begin == std::string::npos) return fmt::format("'{} --help' says what it takes", command_path(at));
  return "for example: " + footer.substr(begin, footer.find('\n', begin) - begin);
}

}  // namespace

const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

void unknown_command(const CLI::App& at, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : at.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::string near = harness::nearest(word, names);
  refuse(fmt::format("{} has no command '{}'", command_path(at), word),
         fmt::format("{}its commands are {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                     fmt::join(names, ", ")));
}

std::string command_path(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : command_path(*parent) + " " + command.get_name();
}

ir::UserError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = chosen_command(app);
  const std::vector<std::string> rest = at.remaining();
  try {
    const auto option =
        std::find_if(rest.begin(), rest.end(), [](const auto& r) { return r.starts_with("-"); });
    if (option != rest.end()) unknown_option(at, *option);
    if (at.get_require_subcommand_min() > 0 && !rest.empty()) unknown_command(at, rest.front());
    if (pass_lists(at) > 1) refuse(command_path(at) + ": --passes is given more than once", kQuotePasses);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty())
      extra_argument(at, rest.front());
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && at.get_require_subcommand_min() > 0) {
      std::vector<std::string> names;
      for (const CLI::App* command : at.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
      refuse(command_path(at) + " needs a command",
             fmt::format("its commands are {}", fmt::join(names, ", ")));
    }
    refuse(fmt::format("{}: {}", command_path(at), error.what()), example(at));
  } catch (const ir::UserError& found) {
    return found;
  }
}

}  // namespace braid::cli
