// Walks all commands as a user finds them, from one --help to the next. Each has --json, an example, an entry
// in the completion and a manual page, and ends with a code of the table. New commands are found without a
// change here.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The parts of a command's --help.
struct Help {
  std::string text;
  Arguments commands;
  Arguments options;      // long names
  Arguments positionals;  // the required ones
  Arguments required;     // options
};

Help read_help(const Arguments& path) {
  const ProcessResult result = braid(path + Arguments{"--help"});
  EXPECT_EQ(result.exit_code, 0);
  Help help{result.out, {}, {}, {}, {}};
  std::istringstream lines(result.out);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!line.empty() && line[0] != ' ') section = line;
    static const std::regex entry("^  (\\S+)( .*)?$"), name("--[a-z][a-z-]*");
    if (!std::regex_match(line, match, entry)) continue;
    const std::string word = match[1];
    const bool required = line.find("REQUIRED") != std::string::npos;
    if (section == "Subcommands:") {
      help.commands.push_back(word);
    } else if (section == "Positionals:") {
      if (required) help.positionals.push_back(word);
    } else if (word[0] == '-' && std::regex_search(word, match, name)) {
      help.options.push_back(match[0]);
      if (required) help.required.push_back(match[0]);
    }
  }
  return help;
}

void for_each_command(const Arguments& path,
                      const std::function<void(const Arguments&, const Help&)>& visit) {
  const Help help = read_help(path);
  SCOPED_TRACE(fmt::format("braid {}", fmt::join(path, " ")));
  visit(path, help);
  for (const std::string& command : help.commands) for_each_command(path + Arguments{command}, visit);
}

void for_each_leaf(const std::function<void(const Arguments&, const Help&)>& visit) {
  int leaves = 0;
  for_each_command({}, [&](const Arguments& path, const Help& help) {
    if (!help.commands.empty()) return;
    ++leaves;
    visit(path, help);
  });
  EXPECT_GT(leaves, 15);
}

// Returns all required arguments, naming files that are missing.
Arguments missing_files(const Help& help, const Folder& folder) {
  Arguments arguments;
  for (std::size_t k = 0; k < help.positionals.size(); ++k) arguments.push_back(folder / "missing.onnx");
  for (const std::string& option : help.required) arguments = arguments + Arguments{option, folder / "out"};
  return arguments;
}

std::string text_of(const Arguments& path) { return fmt::format("braid {}", fmt::join(path, " ")); }

TEST(CommandTree, EveryCommandHasAnExampleOfItself) {
  for_each_command({}, [](const Arguments& path, const Help& help) {
    EXPECT_THAT(help.text, HasSubstr("Example"));
    if (!path.empty()) {
      EXPECT_THAT(help.text.substr(help.text.find("Example")), HasSubstr(text_of(path)));
    }
  });
}

TEST(CommandTree, EveryOptionStandsInTheCompletionAndInTheManual) {
  const std::string script = braid({"completion", "bash"}).out;
  for_each_command({}, [&](const Arguments& path, const Help& help) {
    const std::string entry = path.empty() ? "\"braid\") words=\"" : "\"" + text_of(path) + "\") words=\"";
    const std::size_t begin = script.find(entry);
    ASSERT_NE(begin, std::string::npos);
    const std::string words = script.substr(begin, script.find(";;", begin) - begin);
    std::string page = braid(Arguments{"man"} + path).out;
    page = std::regex_replace(page, std::regex("\\\\-"), "-");
    for (const std::string& option : help.options)
      EXPECT_TRUE(words.find(option) != std::string::npos && page.find(option) != std::string::npos)
          << option;
    for (const std::string& command : help.commands) EXPECT_THAT(words, HasSubstr(command));
  });
}

TEST(CommandTree, BashCompletesCommandsOptionsAndValues) {
  const Folder folder;
  const std::string script = folder.file("completion", braid({"completion"}).out);
  const auto completed = [&](const std::string& words) {
    const std::string command =
        "bash -c 'source " + script + "; COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _braid; echo \"${COMPREPLY[*]}\"' > " + (folder / "said");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read_text(folder / "said");
  };
  EXPECT_EQ(completed("braid pip"), "pipeline\n");
  EXPECT_EQ(completed("braid pipeline sim"), "simulate\n");
  EXPECT_EQ(completed("braid run --thr"), "--threads\n");
  EXPECT_EQ(completed("braid compile x --emit s"), "schedule source\n");
}

TEST(CommandTree, EveryCommandWritesJsonWithItsVersionNameAndExitCode) {
  for_each_leaf([](const Arguments& path, const Help& help) {
    EXPECT_THAT(help.options, ::testing::Contains("--json"));
    const Folder folder;
    const std::string file = folder / "said.json";
    const ProcessResult result = braid(path + missing_files(help, folder) + Arguments{"--json=" + file});
    const nlohmann::json json = nlohmann::json::parse(read_text(file));
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ("braid " + json["command"].get<std::string>(), text_of(path));
    EXPECT_EQ(json["exit_code"], result.exit_code);
    // The same on standard output, and nothing else.
    const ProcessResult printed = braid(path + missing_files(help, folder) + Arguments{"--json"});
    EXPECT_EQ(nlohmann::json::parse(printed.out)["command"], json["command"]);
    if (result.exit_code == 0) return;
    EXPECT_THAT(result.err + result.out,
                HasSubstr(json.contains("error") ? json["error"]["number"].get<std::string>()
                                                 : std::string("FAILED")));
  });
}

TEST(CommandTree, EveryCommandEndsByTheTable) {
  for_each_leaf([](const Arguments& path, const Help& help) {
    const Folder folder;
    const ProcessResult unknown = braid(path + missing_files(help, folder) + Arguments{"--no-such-option"});
    EXPECT_EQ(unknown.exit_code, 2);
    EXPECT_THAT(unknown.err, AllOf(HasSubstr("BR0014"), HasSubstr("has no option '--no-such-option'")));
    const ProcessResult missing = braid(path + missing_files(help, folder));
    if (missing.err.find("error BR") != std::string::npos) {
      EXPECT_EQ(missing.exit_code, code_of(missing.err));
    }
    if (help.positionals.empty()) return;
    EXPECT_NE(missing.exit_code, 0);
    EXPECT_EQ(braid(path).exit_code, 2) << "nothing is given";
  });
}

TEST(CommandTree, TheNearestNameAndItsGroupAreSuggested) {
  const ProcessResult command = braid({"comple"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.err, HasSubstr("did you mean 'compile'?"));
  const ProcessResult option = braid({"run", "model.onnx", "--tread=2"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, AllOf(HasSubstr("did you mean --threads? Execution: "), HasSubstr("--repeat")));
  const ProcessResult split = braid({"opt", "x.braid", "--passes", "plan_memorya=1", "plan_memoryb=2"});
  EXPECT_EQ(split.exit_code, 2);
  EXPECT_THAT(split.err, HasSubstr("a shell splits name{a=1,b=2}: quote it"));
  const ProcessResult twice = braid({"opt", "x.braid", "--passes=plan_memorya=1", "--passes=plan_memoryb=2"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("a shell splits name{a=1,b=2}: quote it"));
}

// `script` is a terminal for the command.
std::string on_a_terminal(const std::string& environment) {
  const Folder folder;
  const std::string command = "TERM=xterm " + environment + " script -qec '" + paths::executable() +
                              " bogus' /dev/null > " + (folder / "said") + " < /dev/null";
  EXPECT_NE(std::system(command.c_str()), -1);
  return read_text(folder / "said");
}

TEST(CommandTree, ErrorsAreColouredOnATerminalUnlessNoColorIsSet) {
  if (std::system("script --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no script(1)";
  EXPECT_THAT(on_a_terminal("env -u NO_COLOR"), HasSubstr("\033[1;31merror BR0014:\033[0m"));
  EXPECT_THAT(on_a_terminal("NO_COLOR="), HasSubstr("\033"));
  const std::string plain = on_a_terminal("NO_COLOR=1");
  EXPECT_THAT(plain, AllOf(HasSubstr("error BR0014:"), ::testing::Not(HasSubstr("\033"))));
}

TEST(CommandTree, TextIsPlainWithoutATerminal) {
  EXPECT_THAT(braid({"bogus"}).err, ::testing::Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace braid::test
