#include "split/fixed_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::split {
namespace {

// The states that lines say of a node's inputs and outputs.
struct Said {
  std::vector<std::optional<MeshSpec>> inputs, outputs;
  bool any = false;
};

Said said_of(const MeshPlan& lines, const Graph& graph, const GraphNode& node) {
  Said said{std::vector<std::optional<MeshSpec>>(node.inputs.size()),
            std::vector<std::optional<MeshSpec>>(node.outputs.size())};
  const auto note = [&](std::optional<MeshSpec>& all, std::size_t axis, const Spec& spec) {
    if (!all) all = MeshSpec(lines.axes.size());
    (*all)[axis] = spec;
    said.any = true;
  };
  for (std::size_t a = 0; a < lines.axes.size(); ++a) {
    const Plan& axis = lines.axes[a];
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (!node.inputs[k].valid()) continue;
      const auto line = axis.readers.find({graph.values[node.inputs[k]].name, {plan_name(graph, node), k}});
      if (line != axis.readers.end()) note(said.inputs[k], a, line->second);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      const auto line = axis.values.find(graph.values[node.outputs[k]].name);
      if (line != axis.values.end()) note(said.outputs[k], a, line->second);
    }
  }
  return said;
}

// Whether a combination takes or computes a value so.
bool is_so(const std::optional<MeshSpec>& said, const GraphValue& value, Combination axes, const Mesh& mesh,
           const std::function<const Spec&(const Strategy&)>& of) {
  if (!said) return true;
  MeshSpec whole;
  for (const Strategy* s : axes) whole.push_back(of(*s));
  if (is_replicated(whole) || axes.size() == 1) return whole == *said;
  std::vector<std::int64_t> sizes;
  for (const ir::Expr& size : value.sizes) sizes.push_back(static_size(size).value_or(-1));
  const std::optional<MeshSpec> own = cut_in_turn(whole, sizes, mesh);
  return own && *own == *said;
}

}  // namespace

SpaceOptions with_lines(const Graph& graph, const MeshPlan& lines, BlockCandidates blocks, Caches caches) {
  SpaceOptions options;
  options.caches = caches;
  if (std::all_of(lines.axes.begin(), lines.axes.end(),
                  [](const Plan& axis) { return axis.values.empty() && axis.readers.empty(); }))
    return options;
  for (const Plan& axis : lines.axes) check_names(graph, axis, "");
  options.blocks = std::move(blocks);
  auto said = std::make_shared<IdVector<NodeId, Said>>();
  for (const GraphNode& node : graph.nodes) said->push_back(said_of(lines, graph, node));
  options.keeps = [&graph, said, mesh = lines.mesh](NodeId n, Combination axes) {
    const Said& own = (*said)[n];
    const GraphNode& node = graph.nodes[n];
    for (std::size_t k = 0; own.any && k < node.inputs.size(); ++k) {
      if (node.inputs[k].valid() && !is_so(own.inputs[k], graph.values[node.inputs[k]], axes, mesh,
                                           [&](const Strategy& s) -> const Spec& { return s.inputs[k]; }))
        return false;
    }
    for (std::size_t k = 0; own.any && k < node.outputs.size(); ++k) {
      if (node.outputs[k].valid() && !is_so(own.outputs[k], graph.values[node.outputs[k]], axes, mesh,
                                            [&](const Strategy& s) -> const Spec& { return s.outputs[k]; }))
        return false;
    }
    return true;
  };
  return options;
}

void require_kept(const Graph& graph, const SplitSpace& space) {
  if (space.unmet().empty()) return;
  const GraphNode& node = graph.nodes[space.unmet()[0]];
  ir::user_error(errors::kPlanMismatch, {},
                 fmt::format("the lines that are kept leave '{}' ({}) no way to be computed",
                             plan_name(graph, node), node.op),
                 "remove lines about its inputs or outputs");
}

void require_kept(const Solution& solution) {
  if (!solution.feasible())
    ir::user_error(errors::kPlanMismatch, {}, "the lines that are kept contradict each other",
                   "a conversion that they need does not exist: remove some of them");
}

}  // namespace braid::split
