#include "split/keep.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::split {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

KeptLines::KeptLines(const Graph& graph, const SplitSpace& space, const MeshPlan& plan, std::string file)
    : file_(std::move(file)) {
  std::vector<int> variable_of(graph.nodes.size(), -1);
  int nodes = 0;
  for (; nodes < space.variables() && space.node_of(nodes) >= 0; ++nodes)
    variable_of[at(space.node_of(nodes))] = nodes;
  std::map<int, int> given_by, returned_by;  // values of caches: their variable
  for (const Passage& p : space.passages()) {
    if (p.producer >= nodes) given_by[p.value] = p.producer;
    if (p.reader >= nodes) returned_by[p.value] = p.reader;
  }
  const auto fail = [&](int number, const std::string& what, const std::string& hint) {
    ir::user_error(errors::kPlanMismatch, {.file = file_}, fmt::format("line {}: {}", number, what), hint);
  };
  const auto add = [&](int number, std::string text, int variable, const MeshSpec& wanted, bool output,
                       int index) {
    Line line{number, std::move(text), variable, {}};
    std::set<std::string> states;
    if (variable < 0) {
      if (!is_replicated(wanted))
        fail(number, line.text + ", but it is whole in every plan", "leave out the line");
    } else {
      bool any = false;
      for (int c = 0; c < space.choices_of(variable); ++c) {
        const MeshSpec& spec =
            output ? space.produced_state(variable, c, index) : space.taken_state(variable, c, index);
        states.insert(to_string(spec, space.mesh()));
        line.possible.push_back(spec == wanted ? 1 : 0);
        any |= spec == wanted;
      }
      if (!any)
        fail(number, fmt::format("{}, which no rule allows on {} ranks", line.text, space.ranks()),
             fmt::format("possible are {}", fmt::join(states, ", ")));
    }
    lines_.push_back(std::move(line));
  };
  // Lines of any axis; axes that a line leaves out are whole.
  std::map<std::string, int> value_lines;
  std::map<std::pair<std::string, Plan::Reader>, int> reader_lines;
  for (const Plan& axis : plan.axes) {
    value_lines.insert(axis.value_lines.begin(), axis.value_lines.end());
    reader_lines.insert(axis.reader_lines.begin(), axis.reader_lines.end());
  }
  for (const auto& [name, number] : value_lines) {
    const int v = graph.find(name);
    const MeshSpec spec = plan.of_value(name);
    if (v < 0)
      fail(number, fmt::format("the model has no tensor '{}'", name), "names are those of the plain model");
    const GraphValue& value = graph.values[at(v)];
    const std::string text = fmt::format("'{}' is {}", name, to_string(spec, space.mesh()));
    if (value.constant) fail(number, fmt::format("'{}' is a constant", name), "fix it where a node takes it");
    if (value.producer < 0) {
      const auto cache = given_by.find(v);
      add(number, text, cache == given_by.end() ? -1 : cache->second, spec, true, 0);
    } else {
      const std::vector<int>& outputs = graph.nodes[at(value.producer)].outputs;
      const auto index = std::find(outputs.begin(), outputs.end(), v) - outputs.begin();
      add(number, text, variable_of[at(value.producer)], spec, true, static_cast<int>(index));
    }
  }
  for (const auto& [key, number] : reader_lines) {
    const auto& [name, reader] = key;
    const int v = graph.find(name);
    MeshSpec spec;
    for (const Plan& axis : plan.axes) {
      const auto found = axis.readers.find(key);
      spec.push_back(found == axis.readers.end() ? Spec::replicated() : found->second);
    }
    if (v < 0)
      fail(number, fmt::format("the model has no tensor '{}'", name), "names are those of the plain model");
    bool found = false;
    for (const GraphUse& use : graph.values[at(v)].readers) {
      if (use.node < 0) {
        if (!reader.node.empty()) continue;
        found = true;
        const auto cache = returned_by.find(v);
        add(number, fmt::format("'{}' is returned as {}", name, to_string(spec, space.mesh())),
            cache == returned_by.end() ? -1 : cache->second, spec, true, 0);
        continue;
      }
      const GraphNode& node = graph.nodes[at(use.node)];
      if (plan_name(graph, node) != reader.node || (reader.input >= 0 && reader.input != use.input)) continue;
      found = true;
      add(number,
          fmt::format("'{}' is taken by '{}' as {}", name, reader.node, to_string(spec, space.mesh())),
          variable_of[at(use.node)], spec, false, use.input);
    }
    if (!found) {
      const std::string who = reader.node.empty() ? "the program does not return"
                                                  : fmt::format("'{}' does not read", reader.node);
      fail(number, fmt::format("{} '{}'", who, name), "a reader is named by its first output");
    }
  }
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.number < b.number; });
}

void KeptLines::forbid(Problem& problem, const Line& line) const {
  if (line.variable < 0) return;
  std::vector<Cost>& costs = problem.variables[at(line.variable)].edit();
  for (std::size_t c = 0; c < costs.size(); ++c) {
    if (line.possible[c] == 0) costs[c] = kForbidden;
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
