// The cheapest choice of a space as a plan (split_space.h).
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "ir/error.h"
#include "split/split_space.h"

namespace braid::split {

bool ChosenNode::is_split() const {
  return std::any_of(axes.begin(), axes.end(), [](const Strategy* s) { return s->letter.valid(); });
}

Cost SplitChoice::price(const Graph& graph, const SplitCosts& costs) const {
  Cost sum = 0;
  for (const ChosenNode& chosen : nodes)
    sum += cost_of(graph, graph.nodes[chosen.node], chosen.axes, plan.mesh, costs);
  for (const ChosenConversion& c : conversions) {
    for (const ConversionStep& step : c.steps) sum += costs.step(step, plan.mesh.axes[step.axis].size);
  }
  return sum;
}
bool SplitSpace::pads(const Assignment& choice) const {
  return std::ranges::any_of(choices_.ids(), [&](VariableId v) { return this->choice(v, choice[v]).padded; });
}

void SplitSpace::forbid_padding(Problem& problem) const {
  for (const VariableId v : choices_.ids()) {
    for (const ChoiceId c : choices_of(v))
      if (choice(v, c).padded) problem.variables[v].forbid(c);
  }
}

namespace {

// A line of a plan, on every axis. Nothing is said of values that are whole on all of them.
void set_value(MeshPlan& plan, const std::string& name, const MeshSpec& spec) {
  if (is_replicated(spec)) return;
  for (std::size_t k = 0; k < spec.size(); ++k) {
    if (spec.size() > 1 || !spec[k].is_replicated()) plan.axes[k].values[name] = spec[k];
  }
}
void set_reader(MeshPlan& plan, const std::string& name, const Plan::Reader& reader, const MeshSpec& spec) {
  for (std::size_t k = 0; k < spec.size(); ++k) plan.axes[k].readers[{name, reader}] = spec[k];
}

}  // namespace

SpaceSolution SplitSpace::solved(const SplitCosts& costs, const SolveOptions& options,
                                 const std::function<void(Problem&)>& restrict) const {
  Problem problem = this->problem(costs);
  if (restrict) restrict(problem);
  SpaceSolution found{solve(problem, options)};
  Solution& solution = found.solution;
  if (solution.status == Status::kInfeasible || (restrict && !solution.feasible())) return found;
  // All whole is always possible without restrictions, so only a spent budget ends here.
  if (!solution.feasible()) {
    solution.choice.assign(variables(), {0});
    for (const Flow& flow : flows_) {
      if (!flow.variable.valid()) continue;
      std::set<StateId> converted;  // into what the first choices of readers take
      for (const Reader& reader : readers(flow)) converted.insert(reader.taken->front());
      converted.erase(flow.produced->front());
      for (const ChoiceId c : flow.choices->all.ids()) {
        const ValueChoice& own = flow.choices->all[c];
        if (own.produced == flow.produced->front() && std::ranges::is_permutation(own.converted, converted))
          solution.choice[flow.variable] = c;
      }
    }
    solution.cost = solver::price(problem, solution.choice);
    solution.status = Status::kFeasible;
  }
  solution.choice.resize(variables().size());  // `restrict` may have added some
  if (solution.status == Status::kOptimal) found.way = {solution.choice};
  return found;
}

SplitChoice SplitSpace::choose(const SplitCosts& costs, const SolveOptions& options,
                               const std::function<void(Problem&)>& restrict) const {
  return described(costs, solved(costs, options, restrict));
}

SplitChoice SplitSpace::described(const SplitCosts& costs, SpaceSolution solution) const {
  SplitChoice result{std::move(solution), MeshPlan(mesh_), {}, {}};
  if (!result.solution.feasible()) return result;
  const Assignment& choice = result.solution.choice;
  const auto set_output = [&](int output, const MeshSpec& spec) {
    set_reader(result.plan, graph_.values[graph_.outputs[output]].name, {"", -1}, spec);
  };
  for (const auto& [value, variable] : cache_inputs_)
    set_value(result.plan, graph_.values[value].name, produced_state(variable, choice[variable], 0));
  for (const auto& [output, variable] : cache_outputs_) {
    const MeshSpec& state = produced_state(variable, choice[variable], 0);
    if (!is_replicated(state)) set_output(output, state);
  }
  for (const auto& [value, state] : given_) set_value(result.plan, graph_.values[value].name, spec(state));
  for (const auto& [output, state] : returned_) set_output(output, spec(state));
  describe_nodes(costs, result);
  describe_conversions(costs, result);
  return result;
}

void SplitSpace::describe_nodes(const SplitCosts& costs, SplitChoice& result) const {
  for (const VariableId v : node_variables()) {
    const GraphNode& node = graph_.nodes[nodes_[v]];
    const Choice& own = choice(v, result.solution.choice[v]);
    result.nodes.push_back({nodes_[v], own.axes, cost_of(graph_, node, own.axes, mesh_, costs), strategies_});
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      const GraphValue& value = graph_.values[node.outputs[k]];
      if (!value.readers.empty()) set_value(result.plan, value.name, spec(own.outputs[k]));
    }
    // Constants in other states than whole.
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (!node.inputs[k].valid() || own.inputs[k] == kReplicated) continue;
      const GraphValue& value = graph_.values[node.inputs[k]];
      if (value.constant)
        set_reader(result.plan, value.name, {plan_name(graph_, node), k}, spec(own.inputs[k]));
    }
  }
}

void SplitSpace::describe_conversions(const SplitCosts& costs, SplitChoice& result) const {
  struct Path {
    std::vector<ConversionStep> steps;
    Cost cost = 0;
  };
  std::map<std::tuple<ValueKindId, StateId, StateId>, Path> paths;
  const auto path_of = [&](const Flow& flow, StateId from, StateId to) -> const Path& {
    const GraphValue& value = graph_.values[flow.value];
    const auto [entry, fresh] = paths.try_emplace({value.kind, from, to});
    if (!fresh) return entry->second;
    auto path = steps(flow.value, from, to, costs);
    ir::internal_check(path.has_value(), "'{}' cannot be converted", value.name);
    entry->second.steps = std::move(*path);
    for (const ConversionStep& step : entry->second.steps)
      entry->second.cost += costs.step(step, mesh_.axes[step.axis].size);
    return entry->second;
  };
  const auto chosen = [&](States states, VariableId variable) {
    return variable.valid() ? (*states)[result.solution.choice[variable]] : states->front();
  };
  for (const Flow& flow : flows_) {
    const std::string& value = graph_.values[flow.value].name;
    const StateId from = chosen(flow.produced, flow.producer);
    std::vector<ChosenConversion> conversions;
    for (const Reader& reader : readers(flow)) {
      const StateId to = chosen(reader.taken, reader.variable);
      if (to == from) continue;
      const bool is_node = reader.variable.valid() && nodes_[reader.variable].valid();
      const std::string name = is_node ? plan_name(graph_, graph_.nodes[nodes_[reader.variable]]) : "";
      if (is_node) set_reader(result.plan, value, {name, reader.input}, spec(to));
      auto known = std::ranges::find(conversions, spec(to), &ChosenConversion::to);
      if (known == conversions.end()) {
        const Path& path = path_of(flow, from, to);
        conversions.push_back({flow.value, spec(from), spec(to), path.steps, path.cost, {}});
        known = conversions.end() - 1;
      }
      known->readers.push_back(name);
    }
    std::ranges::move(conversions, std::back_inserter(result.conversions));
  }
}

}  // namespace braid::split
