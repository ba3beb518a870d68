#include "frontend/sharding/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/errors.h"
#include "frontend/sharding/apply.h"
#include "frontend/sharding/caches.h"
#include "ir/error.h"

namespace braid::frontend::sharding {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A combination must take what is pinned whole, and constants as they can be cut.
bool allowed(const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0 || strategy.inputs[k].is_replicated()) continue;
    const GraphValue& value = graph.values[at(node.inputs[k])];
    if (value.pinned) return false;
    if (value.constant && !can_shard(*value.constant, strategy.inputs[k])) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] < 0 || strategy.outputs[k].is_replicated()) continue;
    if (graph.values[at(node.outputs[k])].pinned) return false;
  }
  return true;
}

// Whether the node computes and takes values as lines say.
bool keeps(const Plan& fixed, const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  const std::string name = plan_name(graph, node);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0) continue;
    const Spec& own = strategy.inputs[k];
    const std::string& value = graph.values[at(node.inputs[k])].name;
    if (!(fixed.of_reader(value, name, static_cast<int>(k), own) == own)) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] < 0) continue;
    const auto line = fixed.values.find(graph.values[at(node.outputs[k])].name);
    if (line != fixed.values.end() && !(line->second == strategy.outputs[k])) return false;
  }
  return true;
}

// Lines that nothing of the search would look at.
void check_fixed(const Graph& graph, const Plan& fixed) {
  const auto refuse = [](const std::string& what) {
    ir::user_error(kPlanMismatch, {}, "a line of the plan that is kept: " + what,
                   "correct or remove the line");
  };
  const auto find = [&](const std::string& name) -> const GraphValue& {
    const int v = graph.find(name);
    if (v < 0) refuse(fmt::format("the model has no value '{}' that is used", name));
    return graph.values[at(v)];
  };
  for (const auto& [name, spec] : fixed.values) {
    const GraphValue& value = find(name);
    if (!spec.is_replicated() && (value.producer < 0 || graph.nodes[at(value.producer)].compile_time))
      refuse(fmt::format("'{}' is an input, a constant or computed while compiling, and whole", name));
  }
  for (const auto& [key, spec] : fixed.readers) {
    const auto& [name, reader] = key;
    const GraphValue& value = find(name);
    const bool reads =
        std::any_of(value.readers.begin(), value.readers.end(), [&, r = reader](const GraphUse& use) {
          if (use.node < 0) return r.node.empty();
          return plan_name(graph, graph.nodes[at(use.node)]) == r.node &&
                 (r.input < 0 || r.input == use.input);
        });
    if (!reads) refuse(fmt::format("'{}' has no such reader", name));
    if (reader.node.empty() && !spec.is_replicated())
      refuse(fmt::format("the output '{}' is returned whole", name));
  }
}

const Spec kReplicated = Spec::replicated();

}  // namespace

SplitSpace::SplitSpace(const Graph& graph, int ranks, Caches caches, const Plan& fixed)
    : graph_(graph), ranks_(ranks), has_fixed_lines_(!fixed.values.empty() || !fixed.readers.empty()) {
  BlockCandidates candidates = block_candidates(graph, ranks);
  check_fixed(graph, fixed);
  suggest_blocks(graph, fixed, candidates);
  variable_of_.assign(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    if (node.compile_time) continue;
    std::vector<Strategy> distinct;
    for (Strategy& strategy : strategies(graph, node, ranks, candidates)) {
      if (!allowed(graph, node, strategy) || !keeps(fixed, graph, node, strategy)) continue;
      const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Strategy& other) {
        return other.inputs == strategy.inputs && other.outputs == strategy.outputs;
      });
      if (!known) distinct.push_back(std::move(strategy));
    }
    if (distinct.empty() && has_fixed_lines_)
      ir::user_error(kPlanMismatch, {},
                     fmt::format("the lines of the plan that is kept leave '{}' ({}) no way to be computed",
                                 plan_name(graph, node), node.proto->op_type()),
                     "remove lines about its inputs or outputs");
    ir::internal_check(!distinct.empty(), "node '{}' has no legal combination", plan_name(graph, node));
    variable_of_[n] = variables_++;
    nodes_.push_back(static_cast<int>(n));
    strategies_.push_back(std::move(distinct));
  }
  if (caches == Caches::in_parts) add_caches();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const GraphValue& value = graph.values[v];
    if (value.constant) continue;
    Flow flow;
    flow.value = static_cast<int>(v);
    if (value.producer >= 0) {
      flow.producer = variable_of_[at(value.producer)];
      if (flow.producer < 0) continue;  // compile-time: whole everywhere, and so are its readers' inputs
      const std::vector<int>& outputs = graph.nodes[at(value.producer)].outputs;
      flow.output =
          static_cast<int>(std::find(outputs.begin(), outputs.end(), static_cast<int>(v)) - outputs.begin());
    } else if (!value.graph_input) {
      continue;
    } else if (const auto cache = cache_inputs_.find(flow.value); cache != cache_inputs_.end()) {
      flow.producer = cache->second;
    }
    for (const GraphUse& use : value.readers) {
      if (use.node < 0) {
        const auto cache = cache_outputs_.find(use.input);
        flow.readers.push_back(cache == cache_outputs_.end() ? Reader{-1, use.input}
                                                             : Reader{cache->second, 0});
      } else if (variable_of_[at(use.node)] >= 0) {
        flow.readers.push_back({variable_of_[at(use.node)], use.input});
      }
    }
    if (!flow.readers.empty()) add_flow(std::move(flow));
  }
}

void SplitSpace::add_caches() {
  for (const CachePair& pair : cache_pairs(graph_)) {
    // The states that some reader of the past takes, and whole.
    std::set<Spec> states = {kReplicated};
    for (const GraphUse& use : graph_.values[at(pair.input)].readers) {
      if (use.node < 0 || variable_of_[at(use.node)] < 0) continue;
      for (const Strategy& strategy : strategies_[at(variable_of_[at(use.node)])]) {
        const Spec& spec = strategy.inputs[at(use.input)];
        if (spec.is_split()) states.insert(spec);
      }
    }
    std::vector<Strategy> own;
    for (const Spec& spec : states) own.push_back({{spec}, {spec}, -1, {}});
    cache_inputs_[pair.input] = cache_outputs_[pair.output] = variables_++;
    nodes_.push_back(-1);
    strategies_.push_back(std::move(own));
  }
}

std::set<Spec> SplitSpace::required_states(const Flow& flow, const Spec& from) const {
  std::set<Spec> required;
  for (const Reader& reader : flow.readers) {
    if (reader.variable < 0) {
      required.insert(kReplicated);
      continue;
    }
    const std::vector<Strategy>& all = strategies_[at(reader.variable)];
    const Spec& first = all.front().inputs[at(reader.input)];
    if (std::all_of(all.begin(), all.end(),
                    [&](const Strategy& s) { return s.inputs[at(reader.input)] == first; }))
      required.insert(first);
  }
  required.erase(from);
  return required;
}

void SplitSpace::add_flow(Flow flow) {
  if (flow.producer >= 0 && flow.readers.size() > 1) {
    std::set<Spec> produced, wanted;
    for (const Strategy& strategy : strategies_[at(flow.producer)])
      produced.insert(strategy.outputs[at(flow.output)]);
    for (const Reader& reader : flow.readers) {
      if (reader.variable < 0) {
        wanted.insert(kReplicated);
        continue;
      }
      for (const Strategy& strategy : strategies_[at(reader.variable)])
        wanted.insert(strategy.inputs[at(reader.input)]);
    }
    const ir::DType dtype = graph_.values[at(flow.value)].dtype;
    for (const Spec& from : produced) {
      std::vector<Spec> reachable;
      for (const Spec& to : wanted) {
        if (!(to == from) && conversion_steps(from, to, dtype, ranks_, ranks_)) reachable.push_back(to);
      }
      // Readers that take one state only, as fixed lines ask for, may need more than two.
      constexpr std::size_t kMostConverted = 2;
      const std::set<Spec> required = required_states(flow, from);
      if (required.size() > kMostConverted) {
        flow.choices.push_back({from, {required.begin(), required.end()}});
        continue;
      }
      flow.choices.push_back({from, {}});
      for (std::size_t i = 0; i < reachable.size(); ++i) {
        flow.choices.push_back({from, {reachable[i]}});
        for (std::size_t j = i + 1; j < reachable.size(); ++j)
          flow.choices.push_back({from, {reachable[i], reachable[j]}});
      }
    }
    flow.variable = variables_++;
  }
  flows_.push_back(std::move(flow));
}

const Spec& SplitSpace::taken(const Reader& reader, int choice) const {
  return reader.variable < 0 ? kReplicated
                             : strategies_[at(reader.variable)][at(choice)].inputs[at(reader.input)];
}

std::int64_t SplitSpace::bytes(int value, const SplitCosts& costs) const {
  std::int64_t elements = 1;
  for (const ir::Expr& size : graph_.values[at(value)].sizes) elements *= costs.size(size);
  return elements * ir::size_of(graph_.values[at(value)].dtype);
}

Cost SplitSpace::conversion_cost(int value, const Spec& from, const Spec& to, const SplitCosts& costs) const {
  if (from == to) return 0;
  if (graph_.values[at(value)].pinned) return kForbidden;
  const auto steps = conversion_steps(from, to, graph_.values[at(value)].dtype, bytes(value, costs), ranks_);
  if (!steps) return kForbidden;
  Cost sum = 0;
  for (const ConversionStep& step : *steps) sum += costs.step(step, ranks_);
  return sum;
}

Problem SplitSpace::problem(const SplitCosts& costs) const {
  Problem problem;
  problem.variables.resize(at(variables_));
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const Strategy& strategy : strategies_[n])
      problem.variables[n].push_back(
          nodes_[n] < 0 ? 0 : costs.node(graph_, graph_.nodes[at(nodes_[n])], strategy, ranks_));
  }
  const auto choices = [&](int variable) { return static_cast<int>(strategies_[at(variable)].size()); };
  const auto add = [](Cost& sum, Cost cost) {
    sum = sum == kForbidden || cost == kForbidden ? kForbidden : sum + cost;
  };
  for (const Flow& flow : flows_) {
    if (flow.variable >= 0) {
      std::vector<Cost>& own = problem.variables[at(flow.variable)];
      for (const ValueChoice& choice : flow.choices) {
        Cost sum = 0;
        for (const Spec& to : choice.converted)
          add(sum, conversion_cost(flow.value, choice.produced, to, costs));
        own.push_back(sum);
      }
      Edge edge{flow.producer, flow.variable, {}};
      for (int c = 0; c < choices(flow.producer); ++c) {
        for (const ValueChoice& choice : flow.choices) {
          const bool same = strategies_[at(flow.producer)][at(c)].outputs[at(flow.output)] == choice.produced;
          edge.costs.push_back(same ? 0 : kForbidden);
        }
      }
      problem.edges.push_back(std::move(edge));
    }
    for (const Reader& reader : flow.readers) {
      if (flow.variable >= 0) {
        const auto offered = [&](const ValueChoice& choice, const Spec& spec) -> Cost {
          if (spec == choice.produced) return 0;
          const bool has =
              std::find(choice.converted.begin(), choice.converted.end(), spec) != choice.converted.end();
          return has ? 0 : kForbidden;
        };
        if (reader.variable < 0) {
          for (std::size_t c = 0; c < flow.choices.size(); ++c)
            add(problem.variables[at(flow.variable)][c], offered(flow.choices[c], kReplicated));
          continue;
        }
        Edge edge{flow.variable, reader.variable, {}};
        for (const ValueChoice& choice : flow.choices) {
          for (int c = 0; c < choices(reader.variable); ++c)
            edge.costs.push_back(offered(choice, taken(reader, c)));
        }
        problem.edges.push_back(std::move(edge));
      } else if (flow.producer < 0) {
        for (int c = 0; reader.variable >= 0 && c < choices(reader.variable); ++c) {
          add(problem.variables[at(reader.variable)][at(c)],
              conversion_cost(flow.value, kReplicated, taken(reader, c), costs));
        }
      } else {
        Edge edge{flow.producer, reader.variable, {}};
        for (int p = 0; p < choices(flow.producer); ++p) {
          const Spec& from = strategies_[at(flow.producer)][at(p)].outputs[at(flow.output)];
          if (reader.variable < 0) {
            add(problem.variables[at(flow.producer)][at(p)],
                conversion_cost(flow.value, from, kReplicated, costs));
            continue;
          }
          for (int c = 0; c < choices(reader.variable); ++c)
            edge.costs.push_back(conversion_cost(flow.value, from, taken(reader, c), costs));
        }
        if (reader.variable >= 0) problem.edges.push_back(std::move(edge));
      }
    }
  }
  return problem;
}

SplitChoice SplitSpace::choose(const SplitCosts& costs, const SolveOptions& options) const {
  SplitChoice result;
  const Problem problem = this->problem(costs);
  result.solution = solve(problem, options);
  result.plan.ranks = ranks_;
  if (!result.solution.feasible() && has_fixed_lines_)
    ir::user_error(kPlanMismatch, {}, "the lines of the plan that is kept contradict each other",
                   "a conversion that they need does not exist: remove some of them");
  // All whole is always possible, so only a spent budget ends here.
  if (!result.solution.feasible()) {
    result.solution.choice.assign(at(variables_), 0);
    for (const Flow& flow : flows_) {
      if (flow.variable < 0) continue;
      for (std::size_t c = 0; c < flow.choices.size(); ++c) {
        if (flow.choices[c].produced.is_replicated() && flow.choices[c].converted.empty())
          result.solution.choice[at(flow.variable)] = static_cast<int>(c);
      }
    }
    result.solution.cost = price(problem, result.solution.choice);
    result.solution.status = Status::kFeasible;
  }
  const std::vector<int>& choice = result.solution.choice;
  const auto chosen = [&](int variable) -> const Strategy& {
    return strategies_[at(variable)][at(choice[at(variable)])];
  };
  for (const auto& [value, variable] : cache_inputs_) {
    const Spec& spec = chosen(variable).outputs[0];
    if (!spec.is_replicated()) result.plan.values[graph_.values[at(value)].name] = spec;
  }
  for (const auto& [output, variable] : cache_outputs_) {
    const Spec& spec = chosen(variable).outputs[0];
    if (!spec.is_replicated())
      result.plan.readers[{graph_.values[at(graph_.outputs[at(output)])].name, {"", -1}}] = spec;
  }
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n] < 0) continue;
    const GraphNode& node = graph_.nodes[at(nodes_[n])];
    const Strategy& strategy = chosen(static_cast<int>(n));
    result.nodes.push_back(
        {nodes_[n], strategy, problem.variables[n].empty() ? 0 : costs.node(graph_, node, strategy, ranks_)});
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] < 0 || strategy.outputs[k].is_replicated()) continue;
      const GraphValue& value = graph_.values[at(node.outputs[k])];
      if (!value.readers.empty()) result.plan.values[value.name] = strategy.outputs[k];
    }
    // Constants in other states than whole.
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] < 0 || strategy.inputs[k].is_replicated()) continue;
      const GraphValue& value = graph_.values[at(node.inputs[k])];
      if (value.constant)
        result.plan.readers[{value.name, {plan_name(graph_, node), static_cast<int>(k)}}] =
            strategy.inputs[k];
    }
  }
  for (const Flow& flow : flows_) {
    const GraphValue& value = graph_.values[at(flow.value)];
    const Spec from = flow.producer < 0 ? kReplicated : chosen(flow.producer).outputs[at(flow.output)];
    std::vector<ChosenConversion> conversions;
    for (const Reader& reader : flow.readers) {
      const Spec& to = reader.variable < 0 ? kReplicated : taken(reader, choice[at(reader.variable)]);
      const bool is_node = reader.variable >= 0 && nodes_[at(reader.variable)] >= 0;
      const std::string name =
          is_node ? plan_name(graph_, graph_.nodes[at(nodes_[at(reader.variable)])]) : "";
      if (to == from) continue;
      if (is_node) result.plan.readers[{value.name, {name, reader.input}}] = to;
      auto known = std::find_if(conversions.begin(), conversions.end(),
                                [&](const ChosenConversion& c) { return c.to == to; });
      if (known == conversions.end()) {
        const auto steps = conversion_steps(from, to, value.dtype, bytes(flow.value, costs), ranks_);
        ir::internal_check(steps.has_value(), "'{}' cannot be converted", value.name);
        conversions.push_back(
            {flow.value, from, to, *steps, conversion_cost(flow.value, from, to, costs), {}});
        known = conversions.end() - 1;
      }
      known->readers.push_back(name);
    }
    result.conversions.insert(result.conversions.end(), conversions.begin(), conversions.end());
  }
  return result;
}

}  // namespace braid::frontend::sharding
