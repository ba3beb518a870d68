#include "frontend/sharding/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "analysis/measure.h"
#include "frontend/sharding/bounds.h"
#include "frontend/sharding/keep.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/memory.h"
#include "frontend/sharding/obstacles.h"
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

bool is_collective(const ConversionStep& step) { return moves_between_ranks(step.kind); }

void describe(const Graph& graph, const SplitChoice& choice, const SplitCosts& costs, int ranks,
              FoundPlan& details) {
  std::map<std::string, std::size_t> layers;
  const auto layer = [&](const std::string& name) -> PlanLayer& {
    const std::string key = layer_of(name);
    const auto [entry, fresh] = layers.emplace(key, details.layers.size());
    if (fresh) details.layers.push_back({key, 0, 0, 0, {}, {}});
    return details.layers[entry->second];
  };
  std::map<std::tuple<std::string, std::string, bool>, PlanReplicated> replicated;
  for (const ChosenNode& chosen : choice.nodes) {
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(chosen.node)];
    PlanLayer& of = layer(node.proto->name().empty() ? plan_name(graph, node) : node.proto->name());
    ++of.nodes;
    if (chosen.strategy.letter >= 0) ++of.split;
    of.compute.ps += costs.node(graph, node, chosen.strategy, ranks);
    if (chosen.strategy.letter >= 0) continue;
    const bool pending = std::any_of(chosen.strategy.inputs.begin(), chosen.strategy.inputs.end(),
                                     [](const Spec& spec) { return spec.is_pending(); });
    if (pending) continue;
    const bool ruled = node.rule != nullptr && node.rule->factors != nullptr;
    const std::string reason = node.rule == nullptr ? "no rule"
                               : ruled              ? "whole is cheaper here"
                                                    : node.rule->reason;
    PlanReplicated& line = replicated[{node.proto->op_type(), reason, ruled}];
    line.op = node.proto->op_type();
    line.reason = reason;
    line.ruled = ruled;
    ++line.nodes;
    for (const int v : node.inputs) {
      if (v < 0 || !graph.values[static_cast<std::size_t>(v)].constant) continue;
      line.bytes += static_cast<std::int64_t>(
          local_bytes(graph.values[static_cast<std::size_t>(v)], Spec::replicated(), costs, ranks));
    }
    for (const int v : node.outputs) {
      if (v < 0 || graph.values[static_cast<std::size_t>(v)].readers.empty()) continue;
      line.bytes += static_cast<std::int64_t>(
          local_bytes(graph.values[static_cast<std::size_t>(v)], Spec::replicated(), costs, ranks));
    }
  }
  for (const auto& [key, line] : replicated) details.replicated.push_back(line);
  for (const ChosenConversion& c : choice.conversions) {
    const GraphValue& value = graph.values[static_cast<std::size_t>(c.value)];
    PlanConversion line{value.name, to_string(c.from), to_string(c.to), "", c.readers, {0}};
    for (const ConversionStep& step : c.steps) {
      line.steps += (line.steps.empty() ? "" : ", ") +
                    fmt::format("{} {}", to_string(step.kind), analysis::format_bytes(step.bytes));
      line.cost.ps += costs.step(step, ranks);
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

// What the smallest plan takes, and of what.
void tell_least(const SplitSpace& space, const MemoryRows& rows, const std::optional<KeptLines>& kept,
                const Problem& problem, FoundPlans& result) {
  Problem restricted = problem;
  if (kept) kept->restrict(restricted);
  result.least_bytes = rows.least(restricted);
  rows.limit(restricted, result.least_bytes);
  const Solution smallest = solve(restricted);
  if (smallest.feasible())
    result.largest = fmt::format("{}", fmt::join(rows.largest(smallest.choice, 4), ", "));
}

}  // namespace

FoundPlans find_plans(const Graph& graph, int ranks, const std::shared_ptr<const analysis::CostModel>& costs,
                      const SearchOptions& options) {
  FoundPlans result;
  if (options.obey && ranks > 1) require_divisible(graph, ranks);
  if (ranks > 1) result.obstacle = Obstacles(graph).of(ranks).value_or("");
  const SplitSpace space(graph, ranks, options.caches ? Caches::in_parts : Caches::whole);
  // What whole products cost then is beyond any time that splitting them could take.
  const Cost whole = options.obey ? Cost{1'000'000'000'000} : 0;
  struct Variant {
    const char* name;
    SplitCostOptions costs;
  };
  const Variant variants[] = {{"cheapest", {1000, whole}},
                              {"communication half hidden", {500, whole}},
                              {"communication hidden", {100, whole}}};
  const SplitCosts plain = split_costs(costs);
  const Problem problem = space.problem(plain);
  BoundSearch bounds(graph, space, costs, {.precision = options.precision});
  std::optional<KeptLines> kept;
  if (!options.keep.empty()) {
    kept.emplace(graph, space, parse_plan(options.keep, options.keep_file), options.keep_file);
    kept->require_possible(problem);
  }
  std::optional<MemoryRows> rows;
  if (options.memory) rows.emplace(graph, space, plain.size);
  const auto restrict = [&](Problem& restricted) {
    if (kept) kept->restrict(restricted);
    if (rows) rows->limit(restricted, *options.memory);
  };
  for (const Variant& variant : variants) {
    const SplitChoice choice = space.choose(split_costs(costs, variant.costs), {}, restrict);
    if (!choice.solution.feasible()) {
      if (rows && result.plans.empty()) tell_least(space, *rows, kept, problem, result);
      break;
    }
    FoundPlan found;
    found.name = variant.name;
    found.text = to_string(choice.plan);
    if (std::any_of(result.plans.begin(), result.plans.end(),
                    [&](const FoundPlan& other) { return other.text == found.text; }))
      continue;
    found.predicted.ps = price(problem, choice.solution.choice);
    found.floor = bounds.of_plan(choice.solution.choice).order;
    if (result.plans.empty()) {
      if (!options.obey) {
        found.bound.ps = choice.solution.bound;
        found.proved = choice.solution.proved();
      }
      // One rank has one plan.
      const PlanBounds all =
          ranks == 1 ? bounds.of_plan(choice.solution.choice) : bounds.over_plans(choice.solution.choice);
      result.loads = all.loads;
      result.order = all.order;
    }
    describe(graph, choice, plain, ranks, found);
    result.plans.push_back(std::move(found));
    if (ranks == 1) break;
  }
  return result;
}

int ranks_within(const Graph& graph, int above, std::int64_t memory,
                 const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options) {
  const SplitCosts plain = split_costs(costs);
  const Obstacles obstacles(graph);
  constexpr int kMost = 64;
  for (int ranks = above + 1; ranks <= kMost; ++ranks) {
    if (options.obey && obstacles.of(ranks)) continue;
    const SplitSpace space(graph, ranks, options.caches ? Caches::in_parts : Caches::whole);
    const MemoryRows rows(graph, space, plain.size);
    Problem problem = space.problem(plain);
    rows.limit(problem, memory);
    if (solve(problem).feasible()) return ranks;
  }
  return 0;
}

bool FoundPlan::splits_nothing() const {
  return std::all_of(layers.begin(), layers.end(), [](const PlanLayer& layer) { return layer.split == 0; });
}

std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = text;
  request->plan_file = file;
  return request;
}

int ranks_of_plan(const std::string& text, const std::string& file) { return parse_plan(text, file).ranks; }

}  // namespace braid::frontend::sharding
