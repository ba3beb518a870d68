// docs/pipeline.md: what it shows of the program is what the program prints.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

std::string without_trailing_blanks(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    while (line.ends_with(' ')) line.pop_back();
    result += line + '\n';
  }
  return result;
}

// The arguments, with examples/ in the source tree.
std::vector<std::string> arguments(const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> result;
  for (std::string word; words >> word;) {
    result.push_back(word.starts_with("examples/") ? paths::source(word) : word);
  }
  return result;
}

TEST(PipelineDocs, ShowWhatTheProgramPrints) {
  const std::string page = read_text(paths::source("docs/pipeline.md"));
  const std::string begin = "```\n$ braid ";
  int commands = 0;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t from = at + begin.size(), line = page.find('\n', from) + 1,
                      end = page.find("```\n", line);
    const std::string command = page.substr(from, line - 1 - from);
    SCOPED_TRACE(command);
    const ProcessResult result = braid(arguments(command));
    std::string printed = without_trailing_blanks(result.err + result.out);
    const std::string root = paths::source() + "/";
    for (std::size_t p = printed.find(root); p != std::string::npos; p = printed.find(root))
      printed.erase(p, root.size());
    EXPECT_EQ(page.substr(line, end - line), printed)
        << "scripts/update_pipeline_docs.py writes the page again";
    ++commands;
  }
  EXPECT_GT(commands, 10);
}

}  // namespace
}  // namespace braid::test
