#include "tests/passes/section_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "ir/error.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/pass_context.h"
#include "passes/runner.h"
#include "tests/support/orders.h"

namespace braid::test {
namespace {

using Kind = Expectation::Kind;
using Lines = std::vector<std::string>;

constexpr std::string_view kSection = "=== ", kRun = "--- ", kShared = "shared ", kOn = " on ",
                           kOrder = "order", kError = "error BR";
constexpr std::size_t kColumns = 110;  // of what is written here

Lines split_lines(std::string_view text) {
  Lines out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string joined(const Lines& lines) {
  return lines.empty() ? "" : fmt::format("{}\n", fmt::join(lines, "\n"));
}

// A loop or an epilogue that fits stands on one line; no blank line stands at the end.
Lines folded(const Lines& lines) {
  static const std::regex instruction(" *((%[0-9]|store |return ).*)");
  Lines out;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    std::string line = lines[k];
    std::size_t end = k + 1;
    std::smatch found;
    for (; end < lines.size() && std::regex_match(lines[end], found, instruction); ++end)
      line += (end == k + 1 ? " " : "  ") + found[1].str();
    if (end < lines.size())
      line += " " + lines[end].substr(std::min(lines[end].find('}'), lines[end].size()));
    const bool folds = lines[k].ends_with(" {") && end > k + 1 && line.size() <= kColumns;
    out.push_back(folds ? line : lines[k]);
    if (folds) k = end;  // the line with the closing brace
  }
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

// The words of a text, in lines of at most so many columns.
Lines wrapped(const std::string& text, std::size_t columns) {
  Lines out(1);
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (!out.back().empty() && out.back().size() + 1 + word.size() > columns) out.emplace_back();
    out.back() += (out.back().empty() ? "" : " ") + word;
  }
  return out;
}

bool is_identifier(std::string_view name) {
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

template <class Int>
bool read_whole(std::string_view text, Int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

class Reader {
 public:
  explicit Reader(SectionFile& file) : file_(file), lines_(file.lines) {}

  void read() {
    if (!text().empty()) fail(1, "text in front of the first section");
    while (at_ < lines_.size()) {
      std::string_view name = header(kSection);
      const bool is_shared = name.starts_with(kShared);
      if (is_shared) name.remove_prefix(kShared.size());
      std::string begin;
      if (const std::size_t on = name.find(kOn); on != std::string_view::npos) {
        begin = shared_text(name.substr(on + kOn.size()));
        name = name.substr(0, on);
      }
      if (!is_identifier(name)) fail(at_, fmt::format("'{}' is no name", name));
      if (is_shared) {
        read_shared(name, begin);
      } else {
        read_section(name, begin);
      }
    }
    for (const auto& [name, line] : unused_) fail(line, fmt::format("nothing stands on '{}'", name));
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& what) const {
    throw std::runtime_error(fmt::format("{}:{}: {}", file_.path, line, what));
  }
  bool at_header() const {
    return at_ >= lines_.size() || lines_[at_].starts_with(kSection) || lines_[at_].starts_with(kRun);
  }
  std::string_view header(std::string_view mark) {
    if (!lines_[at_].starts_with(mark)) fail(at_ + 1, "an expectation outside of a section");
    return std::string_view(lines_[at_++]).substr(mark.size());
  }
  // Up to the next header, without the blank lines around it and the comments that belong to that header.
  Lines text() {
    const std::size_t first = at_;
    while (!at_header()) ++at_;
    std::size_t begin = first, end = at_;
    while (begin < end && lines_[begin].empty()) ++begin;
    while (end > begin && (lines_[end - 1].empty() || lines_[end - 1].starts_with("//"))) --end;
    end_of_text_ = begin == end ? first : end;
    return {lines_.begin() + static_cast<std::ptrdiff_t>(begin),
            lines_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  std::string shared_text(std::string_view name) {
    const auto found = shared_.find(name);
    if (found == shared_.end()) fail(at_, fmt::format("no 'shared {}' stands above", name));
    unused_.erase(found->first);
    return found->second;
  }
  std::string program(std::string begin) {
    const Lines rest = text();
    if (!begin.empty() && !rest.empty()) begin += "\n";
    return begin + joined(rest);
  }

  void read_shared(std::string_view name, const std::string& begin) {
    const std::size_t line = at_;
    const auto [at, is_new] = shared_.emplace(name, program(begin));
    if (!is_new) fail(line, fmt::format("'shared {}' stands twice", name));
    if (at->second.empty()) fail(line, fmt::format("'shared {}' has no text", name));
    unused_.emplace(name, line);
  }

  void read_section(std::string_view name, const std::string& begin) {
    const std::size_t line = at_;
    Section section{.name = std::string(name), .line = static_cast<int>(line)};
    for (const Section& other : file_.sections) {
      if (other.name == name)
        fail(line, fmt::format("'{}' stands twice, first in line {}", name, other.line));
    }
    while (!at_header() && read_key(section)) ++at_;
    section.program = program(begin);
    if (section.program.empty()) fail(line, "a section without a program");
    while (at_ < lines_.size() && lines_[at_].starts_with(kRun)) read_run(section);
    if (section.runs.empty()) fail(line, "a section without an expectation");
    file_.sections.push_back(std::move(section));
  }

  // "key: value"; no line of a program begins like that.
  bool read_key(Section& section) {
    const std::string& line = lines_[at_];
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || !is_identifier(line.substr(0, colon))) return false;
    const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
    if (key == "machine") {
      section.machine = value;
    } else if (key == "memory_cap") {
      if (!read_whole(value, section.memory_cap.emplace()))
        fail(at_ + 1, fmt::format("memory_cap '{}': expected a number of bytes", value));
    } else {
      fail(at_ + 1, fmt::format("unknown key '{}': expected machine or memory_cap", key));
    }
    return true;
  }

  void read_run(Section& section) {
    SectionRun run;
    const std::string_view head = header(kRun);
    const std::size_t line = at_, colon = head.find(": ");
    run.line = static_cast<int>(line);
    if (colon == std::string_view::npos) fail(line, "expected '--- PASSES: EXPECTATION'");
    run.passes = head.substr(0, colon);
    const std::string_view kind = head.substr(colon + 2);
    Expectation& e = run.expected;
    e.lines = text();
    run.end = static_cast<int>(end_of_text_);
    if (kind == "text") {
      if (e.lines.empty()) fail(line, "nothing stands behind 'text'");
    } else if (kind == kOrder || kind.starts_with(std::string(kOrder) + " ")) {
      e.kind = Kind::order;
      const std::string names = fmt::format("{} {}", kind.substr(kOrder.size()), joined(e.lines));
      e.lines = wrapped(names, std::string::npos);
      if (e.lines[0].empty()) fail(line, "nothing stands behind 'order'");
    } else if (kind == "unchanged") {
      e.kind = Kind::unchanged;
      if (!e.lines.empty()) fail(line, "text behind 'unchanged'");
    } else if (kind.starts_with(kError) && read_whole(kind.substr(kError.size()), e.code)) {
      e.kind = Kind::error;
    } else {
      fail(line, fmt::format("'{}': expected text, unchanged, order or error BRnnnn", kind));
    }
    section.runs.push_back(std::move(run));
  }

  SectionFile& file_;
  const Lines& lines_;
  std::size_t at_ = 0, end_of_text_ = 0;
  std::map<std::string, std::string, std::less<>> shared_;
  std::map<std::string, std::size_t> unused_;
};

passes::PassContext context_of(const Section& section) {
  passes::PassContext context;
  if (!section.machine.empty()) context.costs = analysis::cost_model_for(section.machine);
  context.memory_cap = section.memory_cap;
  return context;
}

// The other half of `check_unchanged`.
void no_false_change(const passes::PassRun& run) {
  ir::internal_check(!run.changed || ir::print(run.before) != ir::print(run.after),
                     "pass '{}' says that it changed something; the text is as it was", run.pass.name());
}

Expectation error_outcome(const ir::UserError& error, const Expectation& expected) {
  const std::string message = error.what();
  const bool as_expected = expected.kind == Kind::error && expected.code == error.code() &&
                           std::ranges::all_of(expected.lines, [&](const std::string& part) {
                             return message.find(part) != std::string::npos;
                           });
  return as_expected ? expected : Expectation{Kind::error, error.code(), split_lines(message)};
}

// The declarations that a text begins with.
std::string_view head_of(std::string_view text) {
  constexpr std::string_view declarations[] = {"graph ", "dim ",     "guard ", "ranks ",    "channels ",
                                               "group ", "storage ", "input ", "constant ", "\n"};
  std::size_t end = 0;
  const auto declares = [&](std::string_view word) { return text.substr(end).starts_with(word); };
  while (std::ranges::any_of(declarations, declares)) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

}  // namespace

std::string SectionFile::suite() const {
  std::string out;
  bool upper = true;
  for (const char c : std::filesystem::path(path).stem().string()) {
    if (c != '_') out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return out;
}

SectionFile read_sections(const std::string& path, std::string_view text) {
  SectionFile file{path, split_lines(text), {}};
  Reader(file).read();
  return file;
}

Expectation outcome_of(const Section& section, const SectionRun& run) {
  ir::Schedule schedule = ir::parse_schedule(section.program, section.name);
  const std::string before = ir::print(schedule);
  try {
    passes::PassContext context = context_of(section);
    passes::RunOptions options{.check_unchanged = true, .context = &context};
    options.observers = {no_false_change};
    passes::run_passes(schedule, passes::parse_pass_list(run.passes), options);
  } catch (const ir::UserError& error) {
    return error_outcome(error, run.expected);
  }
  if (run.expected.kind == Kind::order) return {Kind::order, 0, {shape(schedule)}};
  const std::string after = ir::print(schedule);
  if (after == before) return {Kind::unchanged, 0, {}};
  const std::string_view head = head_of(after);
  return {Kind::text, 0, folded(split_lines(head == head_of(before) ? after.substr(head.size()) : after))};
}

// By the longest common subsequence.
std::string line_diff(const Lines& expected, const Lines& found) {
  const std::size_t n = expected.size(), m = found.size();
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));  // of the lines from there on
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      common[i][j] =
          expected[i] == found[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string out;
  for (std::size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && expected[i] == found[j]) {
      out += "  " + expected[i] + "\n";
      ++i, ++j;
    } else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
      out += "- " + expected[i++] + "\n";
    } else {
      out += "+ " + found[j++] + "\n";
    }
  }
  return out;
}

Lines run_lines(const SectionRun& run, const Expectation& expectation) {
  const std::string header = fmt::format("{}{}: ", kRun, run.passes);
  constexpr std::string_view kinds[] = {"text", "unchanged", kOrder, kError};
  Lines out = {header + std::string(kinds[static_cast<std::size_t>(expectation.kind)])},
        rest = expectation.lines;
  if (expectation.kind == Kind::error) out[0] += fmt::format("{:04}", expectation.code);
  if (expectation.kind == Kind::order) {
    if (out[0].size() + 1 + rest.at(0).size() <= kColumns) return {out[0] + " " + rest[0]};
    rest = wrapped(rest[0], kColumns);
  }
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::string difference(const Section& section, const SectionRun& run, const Expectation& outcome) {
  const auto shown = [&](const Expectation& e) {
    Lines lines = run_lines(run, e);
    if (e.kind == Kind::unchanged) {
      const std::string program = ir::print(ir::parse_schedule(section.program, section.name));
      for (std::string& line : folded(split_lines(program.substr(head_of(program).size()))))
        lines.push_back(std::move(line));
    }
    return lines;
  };
  return line_diff(shown(run.expected), shown(outcome));
}

std::string rewritten(const SectionFile& file) {
  Lines out;
  std::size_t copied = 0;
  const auto copy_to = [&](std::size_t line) {
    for (; copied < line; ++copied) out.push_back(file.lines[copied]);
  };
  for (const Section& section : file.sections) {
    for (const SectionRun& run : section.runs) {
      const Expectation outcome = outcome_of(section, run);
      if (outcome == run.expected) continue;
      copy_to(static_cast<std::size_t>(run.line) - 1);
      for (std::string& line : run_lines(run, outcome)) out.push_back(std::move(line));
      copied = static_cast<std::size_t>(run.end);
    }
  }
  copy_to(file.lines.size());
  return joined(out);
}

}  // namespace braid::test
