#include "frontend/sharding/plan.h"

#include <fmt/format.h>

#include <sstream>

#include "frontend/errors.h"

namespace braid::frontend::sharding {
namespace {

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// Reads one line, from left to right.
class Line {
 public:
  Line(std::string text, int number, const std::string& file)
      : text_(std::move(text)), number_(number), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    ir::user_error(
        kPlanSyntax, {.file = file_}, fmt::format("line {}: {}", number_, what),
        "a line is \"value\" = STATE, \"value\" -> \"node's first output\" = STATE, or \"value\" -> "
        "output = STATE; a state is R, S(1), S(1:8+8) or P(sum)");
  }

  bool done() {
    skip();
    return at_ == text_.size() || text_[at_] == '#';
  }
  bool take(std::string_view word) {
    skip();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("expected '{}' at column {}", word, at_ + 1));
  }
  std::string name() {
    skip();
    if (at_ == text_.size() || text_[at_] != '"')
      fail(fmt::format("expected a name in quotation marks at column {}", at_ + 1));
    std::string result;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return result;
      }
      if (text_[at_] == '\\' && ++at_ == text_.size()) break;
      result += text_[at_ - 1] == '\\' && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    fail("a name has no closing quotation mark");
  }
  int number() {
    skip();
    std::size_t digits = 0;
    while (at_ + digits < text_.size() && text_[at_ + digits] >= '0' && text_[at_ + digits] <= '9') ++digits;
    if (digits == 0 || digits > 6)
      fail(fmt::format("expected a number of at most 6 digits at column {}", at_ + 1));
    const int value = std::stoi(text_.substr(at_, digits));
    at_ += digits;
    return value;
  }
  Spec spec() {
    skip();
    std::size_t length = 0;
    std::string compact;
    for (bool inside = false; at_ + length < text_.size(); ++length) {
      const char c = text_[at_ + length];
      if (c == '#' || (!inside && c == ' ')) break;
      if (c == '(') inside = true;
      if (c == ')') inside = false;
      if (c != ' ' && c != '\t' && c != '\r') compact += c;
    }
    const std::optional<Spec> spec = parse_spec(compact);
    if (!spec) fail(fmt::format("'{}' is no state", compact));
    at_ += length;
    return *spec;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  std::string text_;
  int number_;
  const std::string& file_;
  std::size_t at_ = 0;
};

}  // namespace

Spec Plan::of_value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? Spec::replicated() : found->second;
}

Spec Plan::of_reader(const std::string& value, const std::string& node, int input,
                     const Spec& otherwise) const {
  for (const int k : {input, -1}) {
    const auto found = readers.find({value, {node, k}});
    if (found != readers.end()) return found->second;
  }
  return otherwise;
}

std::string to_string(const Plan& plan) {
  std::string text = fmt::format("plan 1\nranks {}\n", plan.ranks);
  for (const auto& [name, spec] : plan.values)
    text += fmt::format("{} = {}\n", quoted(name), to_string(spec));
  for (const auto& [key, spec] : plan.readers) {
    const auto& [value, reader] = key;
    const std::string node = reader.node.empty() ? "output" : quoted(reader.node);
    const std::string input = reader.input < 0 ? "" : fmt::format("[{}]", reader.input);
    text += fmt::format("{} -> {}{} = {}\n", quoted(value), node, input, to_string(spec));
  }
  return text;
}

Plan parse_plan(const std::string& text, const std::string& file) {
  Plan plan;
  std::istringstream lines(text);
  std::string content;
  enum { version, ranks, body } expected = version;
  int number = 0;
  while (std::getline(lines, content)) {
    Line line(content, ++number, file);
    if (line.done()) continue;
    if (expected == version) {
      line.expect("plan");
      if (line.number() != 1) line.fail("the version of the plan must be 1");
      expected = ranks;
    } else if (expected == ranks) {
      line.expect("ranks");
      plan.ranks = line.number();
      if (plan.ranks < 1) line.fail("the number of ranks must be at least 1");
      expected = body;
    } else {
      const std::string value = line.name();
      if (line.take("->")) {
        Plan::Reader reader;
        if (!line.take("output")) {
          reader.node = line.name();
          if (reader.node.empty()) line.fail("the name of a node's output is empty");
          if (line.take("[")) {
            reader.input = line.number();
            line.expect("]");
          }
        }
        line.expect("=");
        if (!plan.readers.emplace(std::pair(value, reader), line.spec()).second)
          line.fail(fmt::format("'{}' has two lines for this reader", value));
        plan.reader_lines[{value, reader}] = number;
      } else {
        line.expect("=");
        if (!plan.values.emplace(value, line.spec()).second)
          line.fail(fmt::format("'{}' has two lines", value));
        plan.value_lines[value] = number;
      }
    }
    if (!line.done()) line.fail("there is more than one statement");
  }
  if (expected != body) Line("", number, file).fail("the plan must begin with 'plan 1' and 'ranks N'");
  return plan;
}

std::string plan_name(const Graph& graph, const GraphNode& node) {
  for (const int v : node.outputs) {
    if (v >= 0) return graph.values[static_cast<std::size_t>(v)].name;
  }
  return {};
}

}  // namespace braid::frontend::sharding
