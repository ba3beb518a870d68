#include "frontend/sharding/fixed_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "frontend/errors.h"
#include "frontend/sharding/apply.h"

namespace braid::frontend::sharding {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Whether the node computes and takes values as lines say.
bool keeps(const Plan& lines, const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  const std::string name = plan_name(graph, node);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0) continue;
    const Spec& own = strategy.inputs[k];
    const std::string& value = graph.values[at(node.inputs[k])].name;
    if (!(lines.of_reader(value, name, static_cast<int>(k), own) == own)) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] < 0) continue;
    const auto line = lines.values.find(graph.values[at(node.outputs[k])].name);
    if (line != lines.values.end() && !(line->second == strategy.outputs[k])) return false;
  }
  return true;
}

}  // namespace

SpaceOptions with_lines(const Graph& graph, const Plan& lines, Caches caches) {
  SpaceOptions options;
  options.caches = caches;
  if (lines.values.empty() && lines.readers.empty()) return options;
  check_names(graph, lines, "");
  const auto suggest = [&](const std::string& name, const Spec& spec) {
    if (!spec.blocks.empty()) options.blocks[{graph.find(name), spec.dim}].insert(spec.blocks);
  };
  for (const auto& [name, spec] : lines.values) {
    suggest(name, spec);
    const GraphValue& value = graph.values[at(graph.find(name))];
    if (spec.is_replicated() || (value.producer >= 0 && !graph.nodes[at(value.producer)].compile_time))
      continue;
    ir::user_error(
        kPlanMismatch, {},
        fmt::format("a line that is kept: '{}' is an input, a constant or computed while compiling, "
                    "and whole",
                    name),
        "remove the line");
  }
  for (const auto& [key, spec] : lines.readers) {
    suggest(key.first, spec);
    if (key.second.node.empty() && !spec.is_replicated())
      ir::user_error(kPlanMismatch, {},
                     fmt::format("a line that is kept: the output '{}' is returned whole", key.first),
                     "remove the line");
  }
  options.keeps = [&graph, lines](int node, Combination axes) {
    return keeps(lines, graph, graph.nodes[at(node)], *axes[0]);
  };
  return options;
}

void require_kept(const Graph& graph, const SplitSpace& space) {
  if (space.unmet().empty()) return;
  const GraphNode& node = graph.nodes[at(space.unmet()[0])];
  ir::user_error(kPlanMismatch, {},
                 fmt::format("the lines that are kept leave '{}' ({}) no way to be computed",
                             plan_name(graph, node), node.proto->op_type()),
                 "remove lines about its inputs or outputs");
}

void require_kept(const SplitChoice& choice) {
  if (!choice.solution.feasible())
    ir::user_error(kPlanMismatch, {}, "the lines that are kept contradict each other",
                   "a conversion that they need does not exist: remove some of them");
}

}  // namespace braid::frontend::sharding
