#include "split/kept_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::split {

// Finds the variables that lines are about.
class KeptLines::Reading {
 public:
  Reading(const Graph& graph, const SplitSpace& space, const std::string& file, std::vector<Line>& lines)
      : graph_(graph), space_(space), file_(file), lines_(lines) {
    const VariableId caches = *space.node_variables().end();
    for (const Passage& p : space.passages()) {
      if (p.producer >= caches) given_by_[p.value] = p.producer;
      if (p.reader >= caches) returned_by_[p.value] = p.reader;
    }
  }

  void read_value(int number, const std::string& name, const MeshSpec& spec) {
    const ValueId v = find(number, name);
    const GraphValue& value = graph_.values[v];
    const std::string text = fmt::format("'{}' is {}", name, to_string(spec, space_.mesh()));
    if (value.constant) fail(number, fmt::format("'{}' is a constant", name), "fix it where a node takes it");
    if (value.producer.valid()) {
      add({number, text, space_.variable_of(value.producer), {}}, spec, true,
          graph_.nodes[value.producer].output_of(v));
    } else {
      add({number, text, cache_of(given_by_, v), {}}, spec, true, 0);
    }
  }

  void read_reader(int number, const std::string& name, const Plan::Reader& reader, const MeshSpec& spec) {
    const ValueId v = find(number, name);
    const std::string state = to_string(spec, space_.mesh());
    bool found = false;
    for (const GraphUse& use : graph_.values[v].readers) {
      if (!use.node.valid()) {
        if (!reader.node.empty()) continue;
        found = true;
        add({number, fmt::format("'{}' is returned as {}", name, state), cache_of(returned_by_, v), {}}, spec,
            true, 0);
        continue;
      }
      const GraphNode& node = graph_.nodes[use.node];
      if (plan_name(graph_, node) != reader.node || (reader.input >= 0 && reader.input != use.input))
        continue;
      found = true;
      add({number,
           fmt::format("'{}' is taken by '{}' as {}", name, reader.node, state),
           space_.variable_of(use.node),
           {}},
          spec, false, use.input);
    }
    if (found) return;
    const std::string who =
        reader.node.empty() ? "the program does not return" : fmt::format("'{}' does not read", reader.node);
    fail(number, fmt::format("{} '{}'", who, name), "a reader is named by its first output");
  }

 private:
  [[noreturn]] void fail(int number, const std::string& what, const std::string& hint) const {
    ir::user_error(errors::kPlanMismatch, {.file = file_}, fmt::format("line {}: {}", number, what), hint);
  }

  ValueId find(int number, const std::string& name) const {
    const ValueId v = graph_.find(name);
    if (!v.valid())
      fail(number, fmt::format("the model has no tensor '{}'", name), "names are those of the plain model");
    return v;
  }

  static VariableId cache_of(const std::map<ValueId, VariableId>& caches, ValueId value) {
    const auto cache = caches.find(value);
    return cache == caches.end() ? VariableId{} : cache->second;
  }

  // `index`: of the node's output or input.
  void add(Line line, const MeshSpec& wanted, bool output, int index) {
    if (!line.variable.valid()) {
      if (!is_replicated(wanted))
        fail(line.number, line.text + ", but it is whole in every plan", "leave out the line");
    } else {
      std::set<std::string> states;
      for (const ChoiceId c : space_.choices_of(line.variable)) {
        const MeshSpec& spec = output ? space_.produced_state(line.variable, c, index)
                                      : space_.taken_state(line.variable, c, index);
        states.insert(to_string(spec, space_.mesh()));
        line.possible.push_back(spec == wanted ? 1 : 0);
      }
      if (std::ranges::find(line.possible, 1) == line.possible.end())
        fail(line.number, fmt::format("{}, which no rule allows on {} ranks", line.text, space_.ranks()),
             fmt::format("possible are {}", fmt::join(states, ", ")));
    }
    lines_.push_back(std::move(line));
  }

  const Graph& graph_;
  const SplitSpace& space_;
  const std::string& file_;
  std::vector<Line>& lines_;
  std::map<ValueId, VariableId> given_by_, returned_by_;  // of caches
};

KeptLines::KeptLines(const Graph& graph, const SplitSpace& space, const MeshPlan& plan, std::string file)
    : file_(std::move(file)) {
  Reading reading(graph, space, file_, lines_);
  // Lines of any axis; axes that a line leaves out are whole.
  std::map<std::string, int> value_lines;
  std::map<std::pair<std::string, Plan::Reader>, int> reader_lines;
  for (const Plan& axis : plan.axes) {
    value_lines.insert(axis.value_lines.begin(), axis.value_lines.end());
    reader_lines.insert(axis.reader_lines.begin(), axis.reader_lines.end());
  }
  for (const auto& [name, number] : value_lines) reading.read_value(number, name, plan.of_value(name));
  for (const auto& [key, number] : reader_lines) {
    MeshSpec spec;
    for (const Plan& axis : plan.axes) {
      const auto found = axis.readers.find(key);
      spec.push_back(found == axis.readers.end() ? Spec::replicated() : found->second);
    }
    reading.read_reader(number, key.first, key.second, spec);
  }
  std::ranges::stable_sort(lines_, {}, &Line::number);
}

void KeptLines::forbid(Problem& problem, const Line& line) const {
  if (!line.variable.valid()) return;
  for (const ChoiceId c : line.possible.ids()) {
    if (line.possible[c] == 0) problem.variables[line.variable].forbid(c);
  }
}

void KeptLines::restrict(Problem& problem) const {
  for (const Line& line : lines_) forbid(problem, line);
}

void KeptLines::require_possible(const Problem& problem, const SolveOptions& options) const {
  Problem all = problem;
  restrict(all);
  if (solve(all, options).status != Status::kInfeasible) return;
  // The fewest first lines that no plan keeps.
  std::size_t possible = 0, impossible = lines_.size();
  while (possible + 1 < impossible) {
    const std::size_t middle = (possible + impossible) / 2;
    Problem some = problem;
    for (std::size_t k = 0; k < middle; ++k) forbid(some, lines_[k]);
    (solve(some, options).status == Status::kInfeasible ? impossible : possible) = middle;
  }
  const Line& line = lines_[impossible - 1];
  ir::user_error(
      errors::kPlanMismatch, {.file = file_},
      fmt::format("line {}: {}, which contradicts a line before it", line.number, line.text),
      "no conversion makes a pending sum of a tensor, and a node's inputs and outputs must fit one rule");
}

}  // namespace braid::split
