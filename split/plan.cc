#include "split/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <sstream>
#include <string_view>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::split {
namespace {

void add_quoted(std::string& text, std::string_view name) {
  text += '"';
  for (const char c : name) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
}

// Reads one line, from left to right.
class Line {
 public:
  Line(std::string text, int number, const std::string& file)
      : text_(std::move(text)), number_(number), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    ir::user_error(
        errors::kPlanSyntax, {.file = file_}, fmt::format("line {}: {}", number_, what),
        "a line is \"value\" = STATE, \"value\" -> \"node's first output\" = STATE, or \"value\" -> "
        "output = STATE; a state is R, S(1), S(1:8+8) or P(sum), on a mesh with axes S(0) on dp, S(1) on tp");
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
  // "S(0) on dp, P(sum) on tp", or a state alone if the mesh has no names; "R" is for all axes.
  MeshSpec specs(const Mesh& mesh) {
    if (!mesh.has_names()) return {spec()};
    MeshSpec all(mesh.axes.size());
    std::vector<bool> given(mesh.axes.size(), false);
    do {
      const Spec own = spec();
      if (!take("on")) {
        if (own.is_replicated()) return all;
        fail(fmt::format("on which axis of {} is it {}", to_string(mesh), to_string(own)));
      }
      const std::string name = word();
      const int axis = mesh.find(name);
      if (axis < 0) fail(fmt::format("the mesh has no axis '{}', only {}", name, to_string(mesh)));
      if (given[axis]) fail(fmt::format("axis '{}' is given twice", name));
      given[axis] = true;
      all[axis] = own;
    } while (take(","));
    return all;
  }
  // Up to the character, which is taken too.
  std::string until(char end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string::npos) fail(fmt::format("expected '{}'", end));
    const std::string inside = text_.substr(at_, found - at_);
    at_ = found + 1;
    return inside;
  }

 private:
  std::string word() {
    skip();
    std::string result;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      result += text_[at_++];
    return result;
  }
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

MeshPlan::MeshPlan(Mesh of) : mesh(std::move(of)) {
  for (const MeshAxis& axis : mesh.axes) {
    axes.emplace_back();
    axes.back().ranks = axis.size;
  }
}

MeshSpec MeshPlan::of_value(const std::string& name) const {
  MeshSpec spec;
  for (const Plan& plan : axes) spec.push_back(plan.of_value(name));
  return spec;
}

std::string to_string(const Plan& plan) { return to_string(MeshPlan(plan)); }

namespace {

// Calls `line` with each key that some axis has, in the order of the keys, and with what every axis says
// about it; null: nothing.
template <class Map, class Line>
void for_each_key(const std::vector<Plan>& axes, Map Plan::*map, const Line& line) {
  std::vector<typename Map::const_iterator> next;
  for (const Plan& axis : axes) next.push_back((axis.*map).begin());
  std::vector<const Spec*> specs(axes.size());
  for (;;) {
    const typename Map::key_type* key = nullptr;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (next[k] != (axes[k].*map).end() && (key == nullptr || next[k]->first < *key)) key = &next[k]->first;
    }
    if (key == nullptr) return;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const bool has = next[k] != (axes[k].*map).end() && !(*key < next[k]->first);
      specs[k] = has ? &next[k]++->second : nullptr;
    }
    line(*key, specs);
  }
}

}  // namespace

std::string to_string(const MeshPlan& plan) {
  std::string text = plan.mesh.has_names() ? fmt::format("plan 1\nmesh [{}]\n", to_string(plan.mesh))
                                           : fmt::format("plan 1\nranks {}\n", plan.ranks());
  using Specs = std::vector<const Spec*>;
  const auto before = [](const Specs& a, const Specs& b) {
    return std::ranges::lexicographical_compare(
        a, b, [](const Spec* one, const Spec* other) { return *one < *other; });
  };
  std::map<Specs, std::string, decltype(before)> known(before);
  const auto add_state = [&](const Specs& specs) {
    const auto [entry, fresh] = known.try_emplace(specs);
    if (fresh) {
      MeshSpec spec;
      for (const Spec* own : specs) spec.push_back(*own);
      entry->second = fmt::format(" = {}\n", to_string(spec, plan.mesh));
    }
    text += entry->second;
  };
  const Spec whole = Spec::replicated();
  for_each_key(plan.axes, &Plan::values, [&](const std::string& name, Specs& specs) {
    std::ranges::replace(specs, nullptr, &whole);
    add_quoted(text, name);
    add_state(specs);
  });
  std::deque<Spec> unsaid;
  for_each_key(plan.axes, &Plan::readers, [&](const auto& key, Specs& specs) {
    const auto& [value, reader] = key;
    for (std::size_t k = 0; k < specs.size(); ++k) {
      if (specs[k] != nullptr) continue;
      // An axis without a line for a reader takes the value as it is produced. The text of a line must say
      // so.
      const Spec own = reader.node.empty() ? whole : plan.axes[k].of_value(value);
      specs[k] = &unsaid.emplace_back(plan.axes[k].of_reader(value, reader.node, reader.input, own));
    }
    add_quoted(text, value);
    text += " -> ";
    if (reader.node.empty()) {
      text += "output";
    } else {
      add_quoted(text, reader.node);
    }
    if (reader.input >= 0) text += fmt::format("[{}]", reader.input);
    add_state(specs);
  });
  return text;
}

MeshPlan parse_mesh_plan(const std::string& text, const std::string& file) {
  MeshPlan plan;
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
      if (line.take("mesh")) {
        line.expect("[");
        plan = MeshPlan(parse_mesh(line.until(']'), fmt::format("line {}: mesh", number)));
      } else {
        line.expect("ranks");
        plan = MeshPlan(Mesh::line(line.number()));
        if (plan.ranks() < 1) line.fail("the number of ranks must be at least 1");
      }
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
        const MeshSpec spec = line.specs(plan.mesh);
        for (std::size_t k = 0; k < spec.size(); ++k) {
          if (!plan.axes[k].readers.emplace(std::pair(value, reader), spec[k]).second)
            line.fail(fmt::format("'{}' has two lines for this reader", value));
          plan.axes[k].reader_lines[{value, reader}] = number;
        }
      } else {
        line.expect("=");
        const MeshSpec spec = line.specs(plan.mesh);
        for (std::size_t k = 0; k < spec.size(); ++k) {
          if (!plan.axes[k].values.emplace(value, spec[k]).second)
            line.fail(fmt::format("'{}' has two lines", value));
          plan.axes[k].value_lines[value] = number;
        }
      }
    }
    if (!line.done()) line.fail("there is more than one statement");
  }
  if (expected != body)
    Line("", number, file).fail("the plan must begin with 'plan 1' and 'ranks N' or 'mesh [dp=2, tp=4]'");
  return plan;
}

Plan parse_plan(const std::string& text, const std::string& file) {
  MeshPlan plan = parse_mesh_plan(text, file);
  ir::internal_check(plan.axes.size() == 1, "a plan of {} axes is read as one of one axis", plan.axes.size());
  return std::move(plan.axes[0]);
}

std::set<std::string> names_in(const MeshPlan& plan) {
  std::set<std::string> names;
  for (const Plan& axis : plan.axes) {
    for (const auto& [name, spec] : axis.values) names.insert(name);
    for (const auto& [key, spec] : axis.readers) names.insert({key.first, key.second.node});
  }
  names.erase("");
  return names;
}

const std::string& plan_name(const Graph& graph, const GraphNode& node) {
  for (const ValueId v : node.outputs) {
    if (v.valid()) return graph.values[v].name;
  }
  static const std::string none;
  return none;
}

int line_of(const Plan& plan, const std::string& value) {
  const auto found = plan.value_lines.find(value);
  return found == plan.value_lines.end() ? 0 : found->second;
}
int line_of(const Plan& plan, const std::string& value, const std::string& node, int input) {
  for (const int k : {input, -1}) {
    const auto found = plan.reader_lines.find({value, {node, k}});
    if (found != plan.reader_lines.end()) return found->second;
  }
  return line_of(plan, value);
}

void refuse_line(const std::string& file, int line, const std::string& what, const std::string& hint) {
  const std::string place = line > 0 ? fmt::format("line {} of the plan: ", line) : "plan: ";
  ir::user_error(errors::kPlanMismatch, {.file = file}, place + what, hint);
}

void check_names(const Graph& graph, const Plan& plan, const std::string& file) {
  for (const auto& [name, spec] : plan.values) {
    if (!graph.find(name).valid())
      refuse_line(file, line_of(plan, name), fmt::format("the model has no value '{}' that is used", name));
  }
  for (const auto& [key, spec] : plan.readers) {
    const auto& [name, reader] = key;
    const int line = line_of(plan, name, reader.node, reader.input);
    const ValueId v = graph.find(name);
    if (!v.valid()) refuse_line(file, line, fmt::format("the model has no value '{}' that is used", name));
    const bool reads = std::ranges::any_of(graph.values[v].readers, [&, r = reader](const GraphUse& use) {
      if (!use.node.valid()) return r.node.empty();
      return plan_name(graph, graph.nodes[use.node]) == r.node && (r.input < 0 || r.input == use.input);
    });
    if (reads) continue;
    const std::string who =
        reader.node.empty() ? "no output of the model" : fmt::format("not read for '{}'", reader.node);
    refuse_line(file, line, fmt::format("'{}' is {}", name, who));
  }
}

}  // namespace braid::split
