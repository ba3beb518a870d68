// One test per section of the files *.braid in this program's folder of tests, and one that all expectations
// are as scripts/update_pass_tests.py writes them: it also fails if a file cannot be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "tests/passes/section_file.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = paths::source() + "/";

std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(kRoot + path).rdbuf();
  return out.str();
}

std::vector<std::string> paths() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kRoot + BRAID_SECTION_FOLDER)) {
    if (entry.path().extension() == ".braid")
      out.push_back(std::string(BRAID_SECTION_FOLDER) + "/" + entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

void check(const std::string& path, const Section& section) {
  for (const SectionRun& run : section.runs) {
    try {
      const Expectation outcome = outcome_of(section, run);
      if (outcome == run.expected) continue;
      ADD_FAILURE_AT(path.c_str(), run.line)
          << section.name << ", expected (-) and found (+):\n"
          << difference(section, run, outcome) << "If this is meant: scripts/update_pass_tests.py";
    } catch (const std::exception& error) {  // of the program's text, or of ours
      ADD_FAILURE_AT(path.c_str(), run.line) << section.name << ": " << error.what();
    }
  }
}

// The expectations of all files are compared with what comes out, or written again.
void compare_or_rewrite() {
  const bool update = std::getenv("BRAID_UPDATE_SECTIONS") != nullptr;
  for (const std::string& path : paths()) {
    try {
      const std::string before = contents(path), after = rewritten(read_sections(path, before));
      if (after == before) continue;
      if (!update) ADD_FAILURE_AT(path.c_str(), 1) << "scripts/update_pass_tests.py would change it";
      if (update) std::ofstream(kRoot + path) << after;
      if (update) std::cout << "updated " << path << "\n";
    } catch (const std::exception& error) {
      ADD_FAILURE_AT(path.c_str(), 1) << error.what();
    }
  }
}

class Function : public testing::Test {
 public:
  explicit Function(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void add(const std::string& suite, const std::string& name, const std::string& path, int line,
         std::function<void()> body) {
  // The fixture of TEST, so that suites may have tests of both kinds.
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, path.c_str(), line,
                        [body = std::move(body)]() -> testing::Test* { return new Function(body); });
}

bool register_sections() {
  for (const std::string& path : paths()) {
    try {
      const auto file = std::make_shared<const SectionFile>(read_sections(path, contents(path)));
      for (const Section& section : file->sections)
        add(file->suite(), section.name, path, section.line,
            [file, &section] { check(file->path, section); });
    } catch (const std::runtime_error&) {  // SectionFiles.AreAsTheyAreRewritten says why
    }
  }
  add("SectionFiles", "AreAsTheyAreRewritten", __FILE__, __LINE__, compare_or_rewrite);
  return true;
}

const bool kRegistered = register_sections();

}  // namespace
}  // namespace braid::test
