#include "frontend/sharding/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <tuple>

#include "analysis/measure.h"
#include "frontend/errors.h"
#include "frontend/sharding/annotations.h"
#include "frontend/sharding/bounds.h"
#include "frontend/sharding/fixed_lines.h"
#include "frontend/sharding/found_plan.h"
#include "frontend/sharding/keep.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/memory.h"
#include "frontend/sharding/obstacles.h"
#include "frontend/sharding/price_points.h"
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
    PlanReplicated& line = replicated[{node.proto->op_type(), reason, ruled}];
    line.op = node.proto->op_type();
    line.reason = reason;
    line.ruled = ruled;
    ++line.nodes;
    const auto count = [&](int v, bool weight) {
      if (v < 0) return;
      const GraphValue& value = graph.values[static_cast<std::size_t>(v)];
      if (weight ? value.constant.has_value() : !value.readers.empty())
        line.bytes += static_cast<std::int64_t>(local_bytes(value, costs, 1));
    };
    for (const int v : node.inputs) count(v, true);
    for (const int v : node.outputs) count(v, false);
  }
  for (const auto& [key, line] : replicated) details.replicated.push_back(line);
  for (const ChosenConversion& c : choice.conversions) {
    const GraphValue& value = graph.values[static_cast<std::size_t>(c.value)];
    PlanConversion line{value.name, to_string(c.from, mesh), to_string(c.to, mesh), "", c.readers, {0}, {}};
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

namespace {

using Restrict = std::function<void(Problem&)>;

// All plans on a mesh, and what options allow of them.
struct PlanSpace {
  PlanSpace(const Graph& graph, const Mesh& mesh, const std::shared_ptr<const analysis::CostModel>& costs,
            const SearchOptions& options)
      : fixed(options.annotated ? annotated_lines(graph, *options.annotated, mesh) : AnnotatedLines{}),
        space(graph, mesh,
              with_lines(graph, fixed.plan, fixed.blocks, options.caches ? Caches::in_parts : Caches::whole)),
        points(costs, options) {
    require_kept(graph, space);
  }

  // Unless the space is large, on one axis, under limits, or if it is `wanted`.
  void make_problem(const Graph& graph, const SearchOptions& options, bool wanted) {
    const bool limited =
        options.memory && std::any_of(points.all().begin(), points.all().end(), [&](const PricePoint& p) {
          return bytes_of_all(graph, split_costs(p.costs)) > *options.memory;
        });
    // On several axes it is large, and needed for what is asked in addition only.
    if (!space.large() &&
        (space.mesh().size() == 1 || wanted || limited || !options.keep.empty() || points.several()))
      problem = points.problem(space, {});
    if (!options.keep.empty()) {
      if (!problem)
        ir::user_error(kSplitRequest, {.file = options.keep_file},
                       fmt::format("the model has too many choices on [{}] for lines to be kept",
                                   to_string(space.mesh())),
                       "give a complete plan, or fewer axes");
      kept.emplace(graph, space, parse_mesh_plan(options.keep, options.keep_file), options.keep_file);
      kept->require_possible(*problem);
    }
    if (limited && problem) {
      for (const PricePoint& point : points.all())
        rows.emplace_back(graph, space, split_costs(point.costs).size);
    }
    if (kept || !rows.empty()) {
      restrict = [this, limit = options.memory](Problem& restricted) {
        if (kept) kept->restrict(restricted);
        for (const MemoryRows& own : rows) own.limit(restricted, *limit);
      };
    }
  }

  AnnotatedLines fixed;
  SplitSpace space;
  PricePoints points;
  std::optional<Problem> problem;  // without what restricts it
  std::optional<KeptLines> kept;
  std::vector<MemoryRows> rows;  // by point
  Restrict restrict;             // null: nothing
};

// The readers of each conversion forbidden to take what it makes. Conversions that are alike, as those of equal layers, cost the
// same otherwise.
void price_alternatives(const SplitSpace& space, const Graph& graph, const SplitChoice& choice,
                        const Problem& problem, const Restrict& restrict, FoundPlan& found) {
  std::map<std::string, int> variable_of;
  for (int v = 0; v < space.variables() && space.node_of(v) >= 0; ++v)
    variable_of[plan_name(graph, graph.nodes[static_cast<std::size_t>(space.node_of(v))])] = v;
  constexpr int kMostSolves = 24;
  int solves = 0;
  for (std::size_t k = 0; k < found.conversions.size(); ++k) {
    const ChosenConversion& conversion = choice.conversions[k];
    PlanConversion& line = found.conversions[k];
    if (std::any_of(conversion.readers.begin(), conversion.readers.end(), [&](const std::string& reader) {
          return reader.empty() || variable_of.count(reader) == 0;
        })) {
      line.unpriced = "what the program returns has one state";
      continue;
    }
    if (solves++ >= kMostSolves) {
      line.unpriced = fmt::format("after {} others", kMostSolves);
      continue;
    }
    Problem other = problem;
    if (restrict) restrict(other);
    for (const std::string& reader : conversion.readers) {
      const int v = variable_of.at(reader);
      const GraphNode& node = graph.nodes[static_cast<std::size_t>(space.node_of(v))];
      std::vector<Cost>& costs = other.variables[static_cast<std::size_t>(v)];
      for (std::size_t c = 0; c < costs.size(); ++c) {
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
          if (node.inputs[i] == conversion.value &&
              space.taken_state(v, static_cast<int>(c), static_cast<int>(i)) == conversion.to)
            costs[c] = kForbidden;
        }
      }
    }
    SolveOptions effort;
    if (restrict) effort.budget >>= 3;
    // Taken otherwise it cannot cost less than the cheapest plan.
    // Other variants weight collectives or shares in a way that `problem` does not.
    if (choice.solution.proved() && choice.solution.cost == found.predicted.ps)
      effort.enough = choice.solution.cost;
    const Solution solution = solve(other, effort);
    if (solution.feasible()) {
      line.otherwise = analysis::Time{solution.cost} - found.predicted;
    } else {
      line.unpriced = solution.status == Status::kInfeasible ? "no plan that is allowed takes it otherwise"
                                                             : "the search has found no plan that does";
    }
  }
}

// With what `restrict` adds: the choice of all variables of the restricted problem.
std::vector<int> completed(Problem restricted, const std::vector<int>& choice) {
  for (std::size_t v = 0; v < choice.size(); ++v) {
    std::vector<Cost>& costs = restricted.variables[v];
    for (std::size_t c = 0; c < costs.size(); ++c)
      if (static_cast<int>(c) != choice[v]) costs[c] = kForbidden;
  }
  return solve(restricted).choice;
}

// The least factor at which the text of the plan is another one, between the last that was the same and twice that.
template <class PlanAt>
double flip_of(const std::string& plan, const PlanAt& plan_at) {
  double same = 1, other = 2;
  for (; other <= 64 && plan_at(other) == plan; other *= 2) same = other;
  if (other > 64) return 0;
  while (other / same > 1.01) {
    const double middle = std::sqrt(same * other);
    (plan_at(middle) == plan ? same : other) = middle;
  }
  return other;
}

PlanFlips find_flips(const std::function<SplitChoice(const SplitCostOptions&)>& choose, Cost whole,
                     const std::string& plan) {
  const auto plan_at = [&](double link, double memory) {
    const auto thousandths = [](double factor) { return static_cast<int>(std::llround(1000 * factor)); };
    try {
      return to_string(choose({thousandths(link), whole, thousandths(memory)}).plan);
    } catch (const ir::UserError& error) {
      // With that factor costs cannot be added up: nothing is known.
      if (error.code() != kSplitCost) throw;
      return plan;
    }
  };
  PlanFlips flips;
  flips.link_slower = flip_of(plan, [&](double f) { return plan_at(f, 1); });
  if (const double f = flip_of(plan, [&](double f) { return plan_at(1 / f, 1); }); f > 0)
    flips.link_faster = 1 / f;
  if (const double f = flip_of(plan, [&](double f) { return plan_at(1, 1 / f); }); f > 0)
    flips.memory_slower = 1 / f;
  flips.memory_faster = flip_of(plan, [&](double f) { return plan_at(1, f); });
  return flips;
}

}  // namespace

// Each whole in three forms: as it is produced, and as two into which it may be converted.
std::int64_t bytes_of_all(const Graph& graph, const SplitCosts& costs) {
  constexpr double kForms = 3;
  double sum = 0;
  for (const GraphValue& value : graph.values) sum += kForms * local_bytes(value, costs, 1);
  return static_cast<std::int64_t>(sum);
}

std::int64_t bytes_counted(const std::vector<MemoryRows>& rows, const std::vector<int>& choice) {
  std::int64_t most = 0;
  for (const MemoryRows& own : rows) most = std::max(most, own.of_plan(choice));
  return most;
}

void tell_least(const MemoryRows& rows, const std::optional<KeptLines>& kept, const Problem& problem,
                FoundPlans& result) {
  Problem restricted = problem;
  if (kept) kept->restrict(restricted);
  const std::int64_t least = rows.least(restricted);
  if (least <= result.least_bytes) return;  // at other sizes
  result.least_bytes = least;
  rows.limit(restricted, result.least_bytes);
  const Solution smallest = solve(restricted);
  if (smallest.feasible())
    result.largest = fmt::format("{}", fmt::join(rows.largest(smallest.choice, 4), ", "));
}

BoundOptions bound_options(const SearchOptions& options, const Mesh& mesh,
                           const std::map<std::string, double>& attention_flops) {
  BoundOptions bounds{.precision = options.precision,
                      .attention_flops = attention_flops,
                      .joins = options.joins,
                      .copies_caches = !options.aliases};
  // A smaller bound holds as well.
  if (mesh.size() > 1) bounds.solve.budget = std::int64_t{1} << 25;
  return bounds;
}

analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const SearchOptions& options) {
  return least_time(graph, ranks, costs, bound_options(options, Mesh::line(ranks), options.attention_flops));
}

FoundPlans find_plans(const Graph& graph, const Mesh& mesh,
                      const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options) {
  FoundPlans result;
  const bool line = mesh.size() == 1;
  const int ranks = mesh.ranks();
  if (line && ranks > 1) {
    if (options.obey && !options.annotated) require_divisible(graph, ranks);
    result.obstacle = Obstacles(graph).of(ranks).value_or("");
  }
  PlanSpace plans(graph, mesh, costs, options);
  const SplitSpace& space = plans.space;
  const PricePoints& points = plans.points;
  std::int64_t steps = options.steps;
  for (const PricePoint& point : options.points) steps += point.steps;
  const Cost whole = options.obey ? whole_product(steps) : 0;
  struct Variant {
    const char* name;
    SplitCostOptions costs;
  };
  const Variant variants[] = {{"cheapest", {1000, whole}},
                              {"fewer collectives", {2000, whole}},
                              {"communication half hidden", {500, whole}},
                              {"communication hidden", {100, whole}}};
  const Variant &cheapest = variants[0], &half_hidden = variants[2], &hidden = variants[3];
  const std::shared_ptr<KnownWork> work = make_known_work();
  const SplitCosts plain = split_costs(costs, {}, work);
  if (points.several() && space.large()) {
    result.obstacle = "its axes are too many choices together to be priced at several sizes";
    return result;
  }
  plans.make_problem(graph, options, options.explain);
  const std::optional<Problem>& problem = plans.problem;
  const std::vector<MemoryRows>& rows = plans.rows;
  const Restrict& restrict = plans.restrict;
  std::vector<BoundSearch> bounds;  // by point
  for (const PricePoint& p : points.all()) {
    if (!options.bounds) break;
    BoundOptions own = bound_options(options, mesh, p.attention_flops);
    own.cells = SplitSpace::kFewRelaxed;
    bounds.emplace_back(graph, space, p.costs, std::move(own));
  }
  // No plan takes less for all steps together than the sum of what none takes less for at each point.
  const auto bound_of = [&](const auto& at_point) {
    PlanBounds sum;
    for (std::size_t p = 0; p < bounds.size(); ++p) {
      const PlanBounds own = at_point(bounds[p]);
      sum.loads.ps += own.loads.ps * points.all()[p].steps;
      sum.order.ps += own.order.ps * points.all()[p].steps;
    }
    return sum;
  };
  const auto over_plans = [&](const std::vector<int>& seed) {
    PlanBounds all = bound_of([&](BoundSearch& b) { return b.over_plans(seed); });
    const bool enough = options.known_loads && options.known_order && all.loads >= *options.known_loads &&
                        all.order >= *options.known_order;
    if (bounds.empty() || enough || !space.leaves_out(SplitSpace::kFewRelaxed)) return all;
    const PlanBounds more = bound_of([&](BoundSearch& b) {
      b.relax(SplitSpace::kMostRelaxed);
      const std::vector<std::vector<int>> found = b.found();
      return b.over_plans(seed, found);
    });
    all.loads = std::max(all.loads, more.loads);
    all.order = std::max(all.order, more.order);
    return all;
  };
  const auto choose = [&](const SplitCostOptions& own, const Restrict& more, SolveOptions effort = {}) {
    // Under a limit that binds a search may spend all it has: the first one has the most.
    if (!rows.empty() && (options.cheapest_only || !result.plans.empty())) effort.budget >>= 3;
    if (!points.several()) return space.choose(split_costs(costs, own, work), effort, more);
    return space.choose(split_costs(costs, own, work), effort, [&](Problem& first) {
      points.add_others(first, space, own);
      if (more) more(first);
    });
  };
  const auto add = [&](std::string name, const SplitChoice& choice) {
    FoundPlan found;
    found.name = std::move(name);
    found.text = to_string(choice.plan);
    if (std::any_of(result.plans.begin(), result.plans.end(),
                    [&](const FoundPlan& other) { return other.text == found.text; }))
      return;
    if (points.several()) {
      found.at_points = points.prices(space, choice.solution.choice);
      found.predicted = points.sum(found.at_points);
    } else {
      found.predicted.ps = choice.price(graph, plain);
    }
    found.joint = choice.joint;
    found.choice = choice.solution.choice;
    const PlanBounds floors = bound_of([&](BoundSearch& b) { return b.of_plan(choice.solution.choice); });
    found.floor = floors.order;
    found.counted_bytes = bytes_counted(rows, choice.solution.choice);
    if (result.plans.empty()) {
      if (!options.obey) {
        found.bound.ps = choice.solution.bound;
        found.proved = choice.solution.proved();
      }
      // One rank has one plan.
      const PlanBounds all = ranks == 1 ? floors : over_plans(choice.solution.choice);
      result.loads = all.loads;
      result.order = all.order;
    }
    describe(graph, choice, plain, found);
    if (options.explain && ranks > 1 && problem && result.plans.empty()) {
      SolveOptions effort;
      if (!rows.empty()) {
        // Only whether there is a cheaper one is asked.
        Problem restricted = *problem;
        restrict(restricted);
        effort.known = completed(std::move(restricted), choice.solution.choice);
        effort.any_cheaper = true;
        effort.budget >>= 3;
      }
      result.flips = find_flips([&](const SplitCostOptions& own) { return choose(own, restrict, effort); },
                                whole, found.text);
    }
    result.plans.push_back(std::move(found));
  };
  // What padding saves in a product can be less than what the odd sizes cost the kernels around it.
  const Restrict unpadded = [&](Problem& restricted) {
    if (restrict) restrict(restricted);
    space.forbid_padding(restricted);
  };
  const auto search = [&](const Variant& variant) {
    return problem ? choose(variant.costs, restrict)
                   : choose_split(space, split_costs(costs, variant.costs, work));
  };
  const auto pads = [&](const SplitChoice& choice) { return problem && space.pads(choice.solution.choice); };
  std::vector<std::vector<int>> way;  // of the first one
  std::optional<SplitChoice> last;
  for (const Variant& variant : variants) {
    // Half hidden is between two that went the same way, up to what is rounded off a picosecond.
    if (&variant == &half_hidden && !way.empty()) {
      last = search(hidden);
      if (last->way == way) continue;
    }
    const SplitChoice choice = &variant == &hidden && last ? std::move(*last) : search(variant);
    if (!choice.solution.feasible()) {
      if (!plans.kept && rows.empty()) require_kept(choice);
      for (const MemoryRows& own : rows) {
        if (result.plans.empty() && !options.cheapest_only) tell_least(own, plans.kept, *problem, result);
      }
      break;
    }
    add(variant.name, choice);
    if (ranks == 1) break;
    if (!pads(choice)) {
      if (&variant == &cheapest) way = choice.way;
    } else if (const SplitChoice even = choose(variant.costs, unpadded); even.solution.feasible()) {
      add(std::string(variant.name) + ", no padding", even);
    }
    if (options.cheapest_only) break;
  }
  return result;
}

void price_alternatives(const Graph& graph, const Mesh& mesh,
                        const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options,
                        FoundPlan& plan) {
  PlanSpace plans(graph, mesh, costs, options);
  plans.make_problem(graph, options, true);
  if (!plans.problem) {
    for (PlanConversion& line : plan.conversions)
      line.unpriced = "its axes are too many choices together, and were chosen one after another";
    return;
  }
  Solution solution;
  solution.status = plan.proved ? Status::kOptimal : Status::kFeasible;
  solution.choice = plan.choice;
  solution.cost = plan.predicted.ps;
  const SplitChoice choice = plans.space.described(split_costs(costs), std::move(solution));
  price_alternatives(plans.space, graph, choice, *plans.problem, plans.restrict, plan);
}

int ranks_within(const Graph& graph, int above, std::int64_t memory,
                 const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options) {
  const PricePoints points(costs, options);
  const Obstacles obstacles(graph);
  for (int ranks = above + 1; ranks <= kMostRanksWithin; ++ranks) {
    if (options.obey && obstacles.of(ranks)) continue;
    const SplitSpace space(graph, ranks, options.caches ? Caches::in_parts : Caches::whole);
    Problem problem = space.problem(split_costs(costs));
    for (const PricePoint& point : points.all())
      MemoryRows(graph, space, split_costs(point.costs).size).limit(problem, memory);
    if (solve(problem).feasible()) return ranks;
  }
  return 0;
}

bool FoundPlan::splits_nothing() const {
  return std::all_of(layers.begin(), layers.end(), [](const PlanLayer& layer) { return layer.split == 0; });
}

std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file,
                                                 bool weights) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = text;
  request->plan_file = file;
  request->obey = !file.empty();
  request->weights = weights ? Weights::cut : Weights::any_bytes;
  return request;
}

Mesh mesh_of_plan(const std::string& text, const std::string& file) {
  return parse_mesh_plan(text, file).mesh;
}

}  // namespace braid::frontend::sharding
