#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command_tree.h"
#include "cli/completion.h"
#include "cli/exit_codes.h"
#include "cli/usage.h"
#include "cli/version.h"

namespace braid::cli {
namespace {

// Text of a line: no character of it is a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += "\n.br\n";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string replace_all(std::string text, char from, const char* to) {
  std::string out;
  for (const char c : text) out += c == from ? std::string(to) : std::string(1, c);
  return out;
}

std::string option_text(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : names_of(option)) names += (names.empty() ? "" : ", ") + name;
  if (option.get_positional()) names = option.get_name(true);
  const std::string type = names == "--json"                ? "[=FILE]"
                           : option.get_expected_max() == 0 ? ""
                                                            : option.get_type_name();
  return fmt::format(".TP\n\\fB{}\\fR{}{}\n{}\n", roff(names), type.empty() || type[0] == '[' ? "" : " ",
                     roff(type), roff(option.get_description()));
}

}  // namespace

std::string manual_name(const CLI::App& command) {
  return replace_all(command_path(command), ' ', "-") + ".1";
}

std::string manual_page(const CLI::App& command) {
  const std::string path = command_path(command), page = replace_all(path, ' ', "-");
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"braid {}\" \"Braid\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR [options]", page,
      kVersion, roff(page), roff(command.get_description()), path);
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) text += " " + roff(option->get_name(true));
    if (std::find(groups.begin(), groups.end(), option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  }
  const std::vector<const CLI::App*> below = command.get_subcommands([](const CLI::App*) { return true; });
  if (!below.empty()) text += " COMMAND\n.SH COMMANDS";
  text += "\n";
  for (const CLI::App* one : below)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", one->get_name(), roff(one->get_description()));
  for (const std::string& group : groups) {
    text += fmt::format(".SH \"{}\"\n", group);
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group() == group) text += option_text(*option);
    }
  }
  text += ".SH EXAMPLES\n.nf\n" + roff(command.get_footer()) + "\n.fi\n.SH \"EXIT STATUS\"\n";
  for (const ExitCodeRow& row : exit_code_rows())
    text += fmt::format(".TP\n{}\n{}\n", row.code, roff(std::string(row.meaning)));
  return text;
}

}  // namespace braid::cli
