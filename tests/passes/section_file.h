// Tests of passes as text: files of sections, one file per pass. tests/passes/sink_waits.braid holds the
// tests SinkWaits.*:
//
//   === shared two_ranks                  a text that programs begin with
//   graph main  ranks 2  group @g = [0, 1]
//   input %x: f32[64]
//
//   // A comment stands above what it is about.
//   === StopAtTheFirstUser on two_ranks   a section: one test; the name says one property
//   memory_cap: 4096                      keys: machine, memory_cap
//   %a: f32[64] = ...                     the program: the shared text, a blank line, and this
//   --- sink_waits: text                  passes with options, and what they make of the program:
//   %a: f32[64] = ...                     one or more of these per section
//   --- sink_waits{budget=1}: order a g.wait b
//
// The outcome of passes on a program is one of
//   text          the program after them; loops that fit stand on one line, and the declarations (graph to
//                 constant) are left out if they are as before
//   unchanged     the program before them
//   order         the names of the nodes, with the members of groups: a g>f{b c} d
//   error BR0542  a user error; the lines that follow, if any, are parts of its message
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::test {

struct Expectation {
  enum class Kind : std::uint8_t { text, unchanged, order, error };
  Kind kind = Kind::text;
  int code = 0;                    // of an error
  std::vector<std::string> lines;  // that follow; of an order one, with all of it
  bool operator==(const Expectation&) const = default;
};

struct SectionRun {
  std::string passes;
  Expectation expected;
  int line = 0;  // of its header, from 1
  int end = 0;   // of the last expected line
};

struct Section {
  std::string name;
  int line = 0;
  std::string program;
  std::string machine;  // empty: the default one
  std::optional<std::int64_t> memory_cap;
  std::vector<SectionRun> runs;
};

struct SectionFile {
  std::string path;
  std::vector<std::string> lines;
  std::vector<Section> sections;

  std::string suite() const;  // "sink_waits.braid": SinkWaits
};

// Throws std::runtime_error "PATH:LINE: what is wrong".
SectionFile read_sections(const std::string& path, std::string_view text);

// Returns the outcome of a run's passes on its section; `run.expected` itself where that holds.
Expectation outcome_of(const Section& section, const SectionRun& run);

// As it stands in a file: the header of the run and what follows it.
std::vector<std::string> run_lines(const SectionRun& run, const Expectation& expectation);

// Lines with "-" are expected only, lines with "+" are there only.
std::string line_diff(const std::vector<std::string>& expected, const std::vector<std::string>& found);
// Unchanged lines are shown too.
std::string difference(const Section& section, const SectionRun& run, const Expectation& outcome);

// The text of the file with every expectation as it comes out.
std::string rewritten(const SectionFile& file);

}  // namespace braid::test
