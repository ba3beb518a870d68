#include "frontend/sharding/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "analysis/measure.h"
#include "frontend/sharding/annotations.h"
#include "frontend/sharding/fixed_lines.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/split.h"

namespace braid::frontend::sharding {

namespace {

// "/model/layers.3/attn/MatMul" -> "/model/layers.3"; names without a number belong to no layer.
std::string layer_of(const std::string& name) {
  const auto digit =
      std::find_if(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digit == name.end()) return "";
  return {name.begin(),
          std::find_if(digit, name.end(), [](unsigned char c) { return std::isdigit(c) == 0; })};
}

bool is_collective(const ConversionStep& step) {
  return step.kind != StepKind::slice && step.kind != StepKind::permute;
}

void describe(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs, FoundPlan& details) {
  const Mesh& mesh = choice.plan.mesh;
  std::map<std::string, std::size_t> layers;
  const auto layer = [&](const std::string& name) -> PlanLayer& {
    const std::string key = layer_of(name);
    const auto [entry, fresh] = layers.emplace(key, details.layers.size());
    if (fresh) details.layers.push_back({key, 0, 0, 0, {}, {}});
    return details.layers[entry->second];
  };
  std::map<std::pair<std::string, std::string>, int> replicated;
  for (const ChosenNode& chosen : choice.nodes) {
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(chosen.node)];
    PlanLayer& of = layer(node.proto->name().empty() ? plan_name(graph, node) : node.proto->name());
    ++of.nodes;
    if (chosen.is_split()) ++of.split;
    of.compute.ps += chosen.cost;
    if (chosen.is_split()) continue;
    const bool pending = std::any_of(chosen.axes.begin(), chosen.axes.end(), [](const Strategy& s) {
      return std::any_of(s.inputs.begin(), s.inputs.end(),
                         [](const Spec& spec) { return spec.is_pending(); });
    });
    if (pending) continue;
    const bool ruled = node.rule != nullptr && node.rule->factors != nullptr;
    const std::string reason = node.rule == nullptr ? "no rule"
                               : ruled              ? "whole is cheaper here"
                                                    : node.rule->reason;
    ++replicated[{node.proto->op_type(), reason}];
  }
  for (const auto& [key, count] : replicated) details.replicated.push_back({key.first, key.second, count});
  for (const ChosenConversion& c : choice.conversions) {
    const GraphValue& value = graph.values[static_cast<std::size_t>(c.value)];
    PlanConversion line{value.name, to_string(c.from, mesh), to_string(c.to, mesh), "", c.readers, {0}};
    for (const ConversionStep& step : c.steps) {
      const MeshAxis& axis = mesh.axes[static_cast<std::size_t>(step.axis)];
      line.steps += (line.steps.empty() ? "" : ", ") + fmt::format("{}{} {}", to_string(step.kind),
                                                                   mesh.has_names() ? " on " + axis.name : "",
                                                                   analysis::format_bytes(step.bytes));
      line.cost.ps += costs.step(step, axis.size);
    }
    if (std::any_of(c.steps.begin(), c.steps.end(), is_collective)) {
      const std::string name = value.producer < 0
                                   ? value.name
                                   : graph.nodes[static_cast<std::size_t>(value.producer)].proto->name();
      PlanLayer& of = layer(name.empty() ? value.name : name);
      of.collectives += static_cast<int>(std::count_if(c.steps.begin(), c.steps.end(), is_collective));
      of.communication += line.cost;
    }
    details.conversions.push_back(std::move(line));
  }
}

// The search and its variants.
std::vector<FoundPlan> find_plans(const Graph& graph, const SplitSpace& space, Caches caches,
                                  const std::shared_ptr<const analysis::CostModel>& costs, bool obey) {
  // What whole products cost then is beyond any time that splitting them could take.
  const Cost whole = obey ? Cost{1'000'000'000'000} : 0;
  struct Variant {
    const char* name;
    SplitCostOptions costs;
  };
  const Variant variants[] = {{"cheapest", {1000, whole}},
                              {"communication half hidden", {500, whole}},
                              {"communication hidden", {100, whole}}};
  const SplitCosts plain = split_costs(costs);
  std::vector<FoundPlan> plans;
  for (const Variant& variant : variants) {
    const SplitChoice choice = choose_split(graph, space, caches, split_costs(costs, variant.costs));
    require_kept(choice);
    FoundPlan found;
    found.name = variant.name;
    found.text = to_string(choice.plan);
    if (std::any_of(plans.begin(), plans.end(),
                    [&](const FoundPlan& other) { return other.text == found.text; }))
      continue;
    found.predicted.ps = choice.price(graph, plain);
    found.joint = choice.joint;
    if (plans.empty() && !obey) {
      found.bound.ps = choice.solution.bound;
      found.proved = choice.solution.proved();
    }
    describe(graph, choice, plain, found);
    plans.push_back(std::move(found));
  }
  return plans;
}

}  // namespace

bool FoundPlan::splits_nothing() const {
  return std::all_of(layers.begin(), layers.end(), [](const PlanLayer& layer) { return layer.split == 0; });
}

std::shared_ptr<const SplitRequest> search_request(std::shared_ptr<const analysis::CostModel> costs,
                                                   const SearchOptions& options, FoundPlans& found) {
  auto request = std::make_shared<SplitRequest>();
  if (!options.mesh.empty()) request->mesh = parse_mesh(options.mesh, "--mesh");
  request->obey = false;
  request->choose = [costs = std::move(costs), options, &found](const Graph& graph, const Mesh& mesh) {
    const Caches caches = options.caches ? Caches::in_parts : Caches::whole;
    const Plan fixed = options.annotated ? annotated_lines(graph, *options.annotated) : Plan();
    const SplitSpace space(graph, mesh, with_lines(graph, fixed, caches));
    require_kept(graph, space);
    found.plans = find_plans(graph, space, caches, costs, options.obey);
    if (mesh.size() == 1) found.lower_bound = bound_over_plans(space, costs);
    return parse_mesh_plan(found.plans.front().text, "");
  };
  return request;
}

std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = text;
  request->plan_file = file;
  request->obey = !file.empty();
  return request;
}

int ranks_of_mesh(const std::string& mesh) { return parse_mesh(mesh, "--mesh").ranks(); }

std::vector<std::string> meshes_of_several_axes(int ranks, int axes) {
  std::vector<std::string> meshes;
  for (const Mesh& mesh : meshes_of(ranks, axes)) meshes.push_back(to_string(mesh));
  return meshes;
}

int ranks_of_plan(const std::string& text, const std::string& file) {
  return parse_mesh_plan(text, file).ranks();
}

}  // namespace braid::frontend::sharding
