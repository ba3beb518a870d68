#include "split/found_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "analysis/measure.h"
#include "split/machine_costs.h"

namespace braid::split {

namespace {

// "/model/layers.3/attn/MatMul" -> "/model/layers.3"; names without a number belong to no layer.
std::string layer_of(const std::string& name) {
  const auto digit =
      std::find_if(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digit == name.end()) return "";
  return {name.begin(),
          std::find_if(digit, name.end(), [](unsigned char c) { return std::isdigit(c) == 0; })};
}

bool is_collective(const ConversionStep& step) { return moves_between_ranks(step.kind); }

}  // namespace

void describe(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs, FoundPlan& details) {
  const Mesh& mesh = choice.plan.mesh;
  std::map<std::string, std::size_t> layers;
  const auto layer = [&](const std::string& name) -> PlanLayer& {
    const std::string key = layer_of(name);
    const auto [entry, fresh] = layers.emplace(key, details.layers.size());
    if (fresh) details.layers.push_back({key, 0, 0, 0, {}, {}});
    return details.layers[entry->second];
  };
  std::map<std::tuple<std::string, std::string, bool>, PlanReplicated> replicated;
  for (const ChosenNode& chosen : choice.nodes) {
    const GraphNode& node = graph.nodes[chosen.node];
    PlanLayer& of = layer(node.name.empty() ? plan_name(graph, node) : node.name);
    ++of.nodes;
    if (chosen.is_split()) ++of.split;
    of.compute.ps += chosen.cost;
    if (chosen.is_split()) continue;
    const bool pending = std::any_of(chosen.axes.begin(), chosen.axes.end(), [](const Strategy* s) {
      return std::any_of(s->inputs.begin(), s->inputs.end(),
                         [](const Spec& spec) { return spec.is_pending(); });
    });
    if (pending) continue;
    const bool ruled = node.has_letters;
    const std::string reason = ruled ? "whole is cheaper here" : node.reason;
    PlanReplicated& line = replicated[{node.op, reason, ruled}];
    line.op = node.op;
    line.reason = reason;
    line.ruled = ruled;
    ++line.nodes;
    const auto count = [&](ValueId v, bool weight) {
      if (!v.valid()) return;
      const GraphValue& value = graph.values[v];
      if (weight ? value.constant.has_value() : !value.readers.empty())
        line.bytes += static_cast<std::int64_t>(local_bytes(value, costs, 1));
    };
    for (const ValueId v : node.inputs) count(v, true);
    for (const ValueId v : node.outputs) count(v, false);
  }
  for (const auto& [key, line] : replicated) details.replicated.push_back(line);
  for (const ChosenConversion& c : choice.conversions) {
    const GraphValue& value = graph.values[c.value];
    PlanConversion line{value.name, to_string(c.from, mesh), to_string(c.to, mesh), "", c.readers, {0}, {}};
    for (const ConversionStep& step : c.steps) {
      const MeshAxis& axis = mesh.axes[step.axis];
      line.steps += (line.steps.empty() ? "" : ", ") + fmt::format("{}{} {}", to_string(step.kind),
                                                                   mesh.has_names() ? " on " + axis.name : "",
                                                                   analysis::format_bytes(step.bytes));
      line.cost.ps += costs.step(step, axis.size);
    }
    if (std::any_of(c.steps.begin(), c.steps.end(), is_collective)) {
      const GraphNode* producer = graph.producer_of(c.value);
      const std::string name = producer == nullptr ? value.name : producer->name;
      PlanLayer& of = layer(name.empty() ? value.name : name);
      of.collectives += std::count_if(c.steps.begin(), c.steps.end(), is_collective);
      of.communication += line.cost;
    }
    details.conversions.push_back(std::move(line));
  }
}

// Each whole in three forms: as it is produced, and as two into which it may be converted.
std::int64_t bytes_of_all(const Graph& graph, const SplitCosts& costs) {
  constexpr double kForms = 3;
  double sum = 0;
  for (const GraphValue& value : graph.values) sum += kForms * local_bytes(value, costs, 1);
  return static_cast<std::int64_t>(sum);
}

std::int64_t bytes_counted(const std::vector<MemoryRows>& rows, const Assignment& choice) {
  std::int64_t most = 0;
  for (const MemoryRows& own : rows) most = std::max(most, own.of_plan(choice));
  return most;
}

void tell_least(const MemoryRows& rows, const LeastMemory& least, FoundPlans& result) {
  if (least.bytes <= result.least_bytes) return;  // at other sizes
  result.least_bytes = least.bytes;
  result.reached_bytes = least.choice.empty() ? 0 : least.reached;
  result.largest =
      least.choice.empty() ? "" : fmt::format("{}", fmt::join(rows.largest(least.choice, 4), ", "));
}

BoundOptions bound_options(const SearchOptions& options, const Mesh& mesh,
                           const std::map<std::string, double>& attention_flops) {
  BoundOptions bounds{.precision = options.precision,
                      .attention_flops = attention_flops,
                      .joins = options.joins,
                      .copies_caches = !options.aliases,
                      .largest_fused_copy = options.largest_fused_copy};
  // A smaller bound holds as well.
  if (mesh.size() > 1) bounds.solve.budget = std::int64_t{1} << 25;
  return bounds;
}

}  // namespace braid::split
