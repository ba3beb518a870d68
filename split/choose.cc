// The cheapest choice of a space as a plan (space.h).
#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "ir/error.h"
#include "split/space.h"

namespace braid::split {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int kReplicated = 0;

}  // namespace

bool ChosenNode::is_split() const {
  return std::any_of(axes.begin(), axes.end(), [](const Strategy* s) { return s->letter >= 0; });
}

Cost SplitChoice::price(const Graph& graph, const SplitCosts& costs) const {
  Cost sum = 0;
  for (const ChosenNode& chosen : nodes)
    sum += cost_of(graph, graph.nodes[at(chosen.node)], chosen.axes, plan.mesh, costs);
  for (const ChosenConversion& c : conversions) {
    for (const ConversionStep& step : c.steps) sum += costs.step(step, plan.mesh.axes[at(step.axis)].size);
  }
  return sum;
}
bool SplitSpace::pads(const std::vector<int>& choice) const {
  for (std::size_t v = 0; v < choices_.size(); ++v)
    if (this->choice(static_cast<int>(v), choice[v]).padded) return true;
  return false;
}

void SplitSpace::forbid_padding(Problem& problem) const {
  for (std::size_t v = 0; v < choices_.size(); ++v) {
    for (std::size_t c = 0; c < choices_[v]->size(); ++c)
      if ((*choices_[v])[c]->padded) problem.variables[v].edit()[c] = kForbidden;
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
    solution.choice.assign(at(variables_), 0);
    for (const Flow& flow : flows_) {
      if (flow.variable < 0) continue;
      std::set<int> converted;  // into what the first choices of readers take
      for (const Reader& reader : readers(flow)) converted.insert((*reader.taken)[0]);
      converted.erase((*flow.produced)[0]);
      for (std::size_t c = 0; c < flow.choices->all.size(); ++c) {
        const ValueChoice& own = flow.choices->all[c];
        if (own.produced == (*flow.produced)[0] && std::ranges::is_permutation(own.converted, converted))
          solution.choice[at(flow.variable)] = static_cast<int>(c);
      }
    }
    solution.cost = solver::price(problem, solution.choice);
    solution.status = Status::kFeasible;
  }
  solution.choice.resize(at(variables_));  // `restrict` may have added some
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
  const std::vector<int>& choice = result.solution.choice;
  const auto chosen = [&](int variable) -> const Choice& {
    return this->choice(variable, choice[at(variable)]);
  };
  const auto spec_of = [&](int state) -> const MeshSpec& { return spec(state); };
  for (const auto& [value, variable] : cache_inputs_)
    set_value(result.plan, graph_.values[at(value)].name, spec_of(chosen(variable).outputs[0]));
  for (const auto& [output, variable] : cache_outputs_) {
    const MeshSpec& spec = spec_of(chosen(variable).outputs[0]);
    if (!is_replicated(spec))
      set_reader(result.plan, graph_.values[at(graph_.outputs[at(output)])].name, {"", -1}, spec);
  }
  for (const auto& [value, state] : given_)
    set_value(result.plan, graph_.values[at(value)].name, spec_of(state));
  for (const auto& [output, state] : returned_)
    set_reader(result.plan, graph_.values[at(graph_.outputs[at(output)])].name, {"", -1}, spec_of(state));
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n] < 0) continue;
    const GraphNode& node = graph_.nodes[at(nodes_[n])];
    const Choice& own = chosen(static_cast<int>(n));
    result.nodes.push_back({nodes_[n], own.axes, cost_of(graph_, node, own.axes, mesh_, costs), strategies_});
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] < 0) continue;
      const GraphValue& value = graph_.values[at(node.outputs[k])];
      if (!value.readers.empty()) set_value(result.plan, value.name, spec_of(own.outputs[k]));
    }
    // Constants in other states than whole.
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] < 0 || own.inputs[k] == kReplicated) continue;
      const GraphValue& value = graph_.values[at(node.inputs[k])];
      if (value.constant)
        set_reader(result.plan, value.name, {plan_name(graph_, node), static_cast<int>(k)},
                   spec_of(own.inputs[k]));
    }
  }
  struct Path {
    std::vector<ConversionStep> steps;
    Cost cost = 0;
  };
  std::map<std::array<int, 3>, Path> paths;  // by the kind of the tensor, and its states
  const auto path_of = [&](const Flow& flow, int from, int to) -> const Path& {
    const GraphValue& value = graph_.values[at(flow.value)];
    const auto [entry, fresh] = paths.try_emplace({value.kind, from, to});
    if (!fresh) return entry->second;
    auto path = steps(flow.value, from, to, costs);
    ir::internal_check(path.has_value(), "'{}' cannot be converted", value.name);
    entry->second.steps = std::move(*path);
    for (const ConversionStep& step : entry->second.steps)
      entry->second.cost += costs.step(step, mesh_.axes[at(step.axis)].size);
    return entry->second;
  };
  for (const Flow& flow : flows_) {
    const GraphValue& value = graph_.values[at(flow.value)];
    const int from = (*flow.produced)[flow.producer < 0 ? 0 : at(choice[at(flow.producer)])];
    std::vector<ChosenConversion> conversions;
    for (const Reader& reader : readers(flow)) {
      const int to = reader.variable < 0 ? taken(reader, 0) : taken(reader, choice[at(reader.variable)]);
      const bool is_node = reader.variable >= 0 && nodes_[at(reader.variable)] >= 0;
      if (to == from) continue;
      const std::string name =
          is_node ? plan_name(graph_, graph_.nodes[at(nodes_[at(reader.variable)])]) : "";
      if (is_node) set_reader(result.plan, value.name, {name, reader.input}, spec_of(to));
      auto known = std::find_if(conversions.begin(), conversions.end(),
                                [&](const ChosenConversion& c) { return c.to == spec_of(to); });
      if (known == conversions.end()) {
        const Path& path = path_of(flow, from, to);
        conversions.push_back({flow.value, spec_of(from), spec_of(to), path.steps, path.cost, {}});
        known = conversions.end() - 1;
      }
      known->readers.push_back(name);
    }
    std::ranges::move(conversions, std::back_inserter(result.conversions));
  }
  return result;
}

}  // namespace braid::split
