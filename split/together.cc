#include "split/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "split/found_plan.h"
#include "split/machine_costs.h"
#include "split/obstacles.h"
#include "split/plan_space.h"

namespace braid::split {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// One program on the mesh.
struct Own {
  Own(const PlannedProgram& planned, const Mesh& mesh)
      : program(planned), plans(*planned.graph, mesh, planned.costs, planned.options) {
    variable_of.assign(graph.nodes.size(), -1);
    for (int v = 0; v < space.variables() && space.node_of(v) >= 0; ++v)
      variable_of[at(space.node_of(v))] = v;
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  // Prepares the search; the space must not be large.
  void prepare() {
    const SearchOptions& options = program.options;
    plans.make_problem(options, true);
    for (const PricePoint& p : points.all()) {
      if (options.bounds)
        bounds.emplace_back(graph, space, p.costs, bound_options(options, space.mesh(), p.attention_flops));
    }
  }

  Problem problem(const SplitCostOptions& costs, bool even) const {
    Problem own = points.problem(space, costs);
    if (plans.restrict) plans.restrict(own);
    if (even) space.forbid_padding(own);
    return own;
  }

  // The sum over all steps of bounds at each point.
  PlanBounds bound(const std::vector<int>& choice, bool of_plan) {
    PlanBounds sum;
    for (std::size_t p = 0; p < bounds.size(); ++p) {
      const PlanBounds one = of_plan ? bounds[p].of_plan(choice) : bounds[p].over_plans(choice);
      sum.loads.ps += one.loads.ps * points.all()[p].steps;
      sum.order.ps += one.order.ps * points.all()[p].steps;
    }
    return sum;
  }

  const PlannedProgram& program;
  PlanSpace plans;
  const Graph& graph = plans.graph;
  const SplitSpace& space = plans.space;
  const PricePoints& points = plans.points;
  std::vector<int> variable_of;  // by node
  std::vector<BoundSearch> bounds;
};

// The steps of all programs.
std::int64_t steps_of(std::span<const PlannedProgram> programs) {
  std::int64_t steps = 0;
  for (const PlannedProgram& program : programs) {
    steps += program.options.steps;
    for (const PricePoint& point : program.options.points) steps += point.steps;
  }
  return steps;
}

// Plans for all programs; choices are per program.
struct Found {
  std::vector<std::vector<int>> choices;  // empty: none
  Cost bound = 0;
  bool proved = false;
};

class Together {
 public:
  Together(std::span<const PlannedProgram> programs, const SharedTensors& shared, const Mesh& mesh)
      : shared_(shared) {
    for (const PlannedProgram& program : programs) all.push_back(std::make_unique<Own>(program, mesh));
  }

  bool large() const {
    return std::ranges::any_of(all, [](const auto& own) { return own->space.large(); });
  }

  void prepare() {
    for (const auto& own : all) own->prepare();
    add_weights();
    add_caches();
  }

  // The cheapest plans. `alone`: those that each program has without the others; empty if one has none.
  Found choose(const SplitCostOptions& costs, bool even, const std::vector<Solution>& alone,
               const SolveOptions& options) const {
    std::vector<Problem> own;
    for (const auto& one : all) own.push_back(one->problem(costs, even));
    const Joined joined = join(own);
    Solution best = solve(joined.problem, options);
    if (!best.proved()) {
      // Every program's own layout, in an order that does not depend on theirs.
      Cost sum = 0;
      for (const Solution& one : alone) sum += one.bound;
      best.bound = std::max(best.bound, sum);
      for (const int p : joined.programs) {
        if (alone.empty()) break;
        const Solution other = solve(with_layout_of(p, alone[at(p)].choice, joined));
        if (!other.feasible() || (best.feasible() && other.cost >= best.cost)) continue;
        best.choice = other.choice;
        best.cost = other.cost;
        best.status = best.cost == best.bound ? Status::kOptimal : Status::kFeasible;
      }
    }
    Found found{{}, best.bound, best.proved()};
    if (!best.feasible()) return found;
    for (std::size_t p = 0; p < all.size(); ++p) {
      const auto begin = best.choice.begin() + joined.offset[p];
      found.choices.emplace_back(begin, begin + all[p]->space.variables());
    }
    return found;
  }

  std::vector<Solution> alone(const SplitCostOptions& costs, bool even) const {
    std::vector<Solution> solutions;
    for (const auto& own : all) {
      solutions.push_back(solve(own->problem(costs, even)));
      if (!solutions.back().feasible()) return {};
    }
    return solutions;
  }

  std::vector<std::unique_ptr<Own>> all;

 private:
  // A variable that ties others to one of its choices, and tables from it to each of them.
  struct Tie {
    struct End {
      int program = -1, variable = -1, input = 0;
      CostTable allowed;  // by choice of the tie and choice of the variable: free or forbidden
    };
    int choices = 0;
    std::vector<End> ends;
  };
  struct Joined {
    Problem problem;
    std::vector<int> programs;  // in the order in which they are in it
    std::vector<int> offset;    // of each program's variables
    int ties = 0;               // variable of the first one
  };

  // Ties readers of weights to the states that all ends have. Readers of equal weights in equal layers share
  // tables.
  void add_weights() {
    std::map<std::tuple<const void*, int, std::vector<MeshSpec>>, CostTable> tables;
    for (const SharedWeight& weight : shared_.weights) {
      std::set<MeshSpec> common;
      bool free = false, first = true;
      for (const SharedWeight::Reader& reader : weight.readers) {
        std::set<MeshSpec> own;
        const auto [space, variable] = of(reader);
        for (int c = 0; c < space->choices_of(variable); ++c)
          own.insert(space->taken_state(variable, c, reader.input));
        free = free || own.size() > 1;
        if (first) common = own;
        first = false;
        std::erase_if(common, [&](const MeshSpec& state) { return own.count(state) == 0; });
      }
      if (!free) continue;  // whole everywhere
      const std::vector<MeshSpec> states(common.begin(), common.end());
      ir::internal_check(!states.empty(), "a weight has no layout");
      Tie tie{static_cast<int>(states.size()), {}};
      for (const SharedWeight::Reader& reader : weight.readers) {
        const auto [space, variable] = of(reader);
        const auto [table, fresh] =
            tables.try_emplace({space->address_of_choices(variable), reader.input, states});
        if (fresh) {
          std::vector<Cost> costs;
          for (const MeshSpec& state : states) {
            for (int c = 0; c < space->choices_of(variable); ++c)
              costs.push_back(space->taken_state(variable, c, reader.input) == state ? 0 : kForbidden);
          }
          table->second = std::move(costs);
        }
        tie.ends.push_back({reader.program, variable, reader.input, table->second});
      }
      ties_.push_back(std::move(tie));
    }
  }

  // Whole, or cut along dimensions of equal sizes.
  void add_caches() {
    for (const SharedCache& cache : shared_.caches) {
      const Own &from = *all[at(cache.from)], &to = *all[at(cache.to)];
      const int given = to.space.variable_of_cache_input(cache.input);
      const int returned = from.space.variable_of_cache_output(cache.output);
      if (given < 0 && returned < 0) continue;  // both whole
      const GraphValue& a = from.graph.values[at(from.graph.outputs[at(cache.output)])];
      const GraphValue& b = to.graph.values[at(cache.input)];
      const auto fits = [&](const MeshSpec& state) {
        return std::ranges::all_of(state, [&](const Spec& s) {
          if (!s.is_split()) return !s.is_pending();
          const auto size = static_size(a.sizes[at(s.dim)]);
          return size && size == static_size(b.sizes[at(s.dim)]);
        });
      };
      const MeshSpec whole(to.space.mesh().axes.size());
      const auto states_of = [&](const SplitSpace& space, int variable) {
        if (variable < 0) return std::vector<MeshSpec>{whole};
        std::vector<MeshSpec> states;
        for (int c = 0; c < space.choices_of(variable); ++c)
          states.push_back(space.produced_state(variable, c, 0));
        return states;
      };
      const std::vector<MeshSpec> one = states_of(from.space, returned), other = states_of(to.space, given);
      std::vector<MeshSpec> common;
      for (const MeshSpec& state : one) {
        if (fits(state) && std::ranges::find(other, state) != other.end()) common.push_back(state);
      }
      std::ranges::sort(common);
      Tie tie{static_cast<int>(common.size()), {}};
      const auto add = [&](int program, int variable, const std::vector<MeshSpec>& states) {
        if (variable < 0) return;
        std::vector<Cost> costs;
        for (const MeshSpec& state : common) {
          for (const MeshSpec& taken : states) costs.push_back(state == taken ? 0 : kForbidden);
        }
        tie.ends.push_back({program, variable, 0, std::move(costs)});
      };
      add(cache.from, returned, one);
      add(cache.to, given, other);
      ties_.push_back(std::move(tie));
    }
  }

  std::pair<const SplitSpace*, int> of(const SharedWeight::Reader& reader) const {
    const Own& own = *all[at(reader.program)];
    return {&own.space, own.variable_of[at(reader.node)]};
  }

  // Compares problems by content, so the order in which programs were given decides nothing.
  static bool before(const Problem& a, const Problem& b) {
    if (a.variables != b.variables) return a.variables < b.variables;
    return std::ranges::lexicographical_compare(a.edges, b.edges, [](const Edge& x, const Edge& y) {
      const auto ends = [](const Edge& e) { return std::tuple(e.from, e.to); };
      return ends(x) != ends(y) ? ends(x) < ends(y) : x.costs < y.costs;
    });
  }

  Joined join(const std::vector<Problem>& own) const {
    Joined joined;
    joined.programs.resize(own.size());
    std::iota(joined.programs.begin(), joined.programs.end(), 0);
    std::stable_sort(joined.programs.begin(), joined.programs.end(),
                     [&](int a, int b) { return before(own[at(a)], own[at(b)]); });
    joined.offset.resize(own.size());
    Problem& problem = joined.problem;
    for (const int p : joined.programs) {
      const int offset = joined.offset[at(p)] = static_cast<int>(problem.variables.size());
      const Problem& one = own[at(p)];
      problem.variables.insert(problem.variables.end(), one.variables.begin(), one.variables.end());
      for (const Edge& edge : one.edges)
        problem.edges.push_back({edge.from + offset, edge.to + offset, edge.costs});
      const int rows = static_cast<int>(problem.limits.size());
      problem.limits.insert(problem.limits.end(), one.limits.begin(), one.limits.end());
      for (Usage usage : one.usages) {
        usage.variable += offset;
        for (RowRange& range : usage.rows) range = {range.begin + rows, range.end + rows};
        problem.usages.push_back(std::move(usage));
      }
    }
    joined.ties = static_cast<int>(problem.variables.size());
    for (const int t : interleave(own, joined)) {
      const Tie& tie = ties_[at(t)];
      const int variable = static_cast<int>(problem.variables.size());
      problem.variables.emplace_back(std::vector<Cost>(at(tie.choices), 0));
      for (const int p : joined.programs) {
        for (const Tie::End& end : tie.ends) {
          if (end.program == p)
            problem.edges.push_back({variable, joined.offset[at(p)] + end.variable, end.allowed});
        }
      }
    }
    return joined;
  }

  // Sets the order: equal layers of all programs follow one another, with the ties between them. Returns the
  // ties in the order of their variables.
  std::vector<int> interleave(const std::vector<Problem>& own, Joined& joined) const {
    std::vector<std::vector<int>> place(own.size());  // of a program's variable in its order
    // By that place: inputs that are tied, and to what. Their numbers come from names, which decide nothing.
    std::vector<std::vector<std::vector<std::pair<int, int>>>> tied(own.size());
    for (std::size_t p = 0; p < own.size(); ++p) {
      place[p].resize(own[p].variables.size());
      tied[p].resize(own[p].variables.size());
      for (std::size_t k = 0; k < own[p].order.size(); ++k)
        place[p][at(own[p].order[k])] = static_cast<int>(k);
    }
    for (std::size_t t = 0; t < ties_.size(); ++t) {
      for (const Tie::End& end : ties_[t].ends)
        tied[at(end.program)][at(place[at(end.program)][at(end.variable)])].push_back(
            {end.input, static_cast<int>(t)});
    }
    for (auto& of_program : tied) {
      for (auto& here : of_program) std::ranges::sort(here);
    }
    std::vector<int> ties, next(own.size(), 0);
    std::vector<char> placed(ties_.size(), 0);
    std::vector<int>& order = joined.problem.order;
    // Adds all variables of a program up to a place, with the variables tied to them.
    const auto advance = [&](const auto& self, int p, int end) -> void {
      while (next[at(p)] <= end) {
        const int here = next[at(p)]++;
        order.push_back(joined.offset[at(p)] + own[at(p)].order[at(here)]);
        for (const auto& [input, t] : tied[at(p)][at(here)]) {
          if (std::exchange(placed[at(t)], 1) != 0) continue;
          order.push_back(joined.ties + static_cast<int>(ties.size()));
          ties.push_back(t);
          for (const int other : joined.programs) {
            int first = -1;
            for (const Tie::End& e : ties_[at(t)].ends) {
              const int there = place[at(e.program)][at(e.variable)];
              if (e.program == other && (first < 0 || there < first)) first = there;
            }
            self(self, other, first);
          }
        }
      }
    };
    for (const int p : joined.programs) advance(advance, p, static_cast<int>(own[at(p)].order.size()) - 1);
    return ties;
  }

  // Returns the problem with the ties of a program set as in its own choice.
  static Problem with_layout_of(int p, const std::vector<int>& choice, const Joined& joined) {
    Problem problem = joined.problem;
    const int begin = joined.offset[at(p)], end = begin + static_cast<int>(choice.size());
    for (const Edge& edge : joined.problem.edges) {
      if (edge.from < joined.ties || edge.to < begin || edge.to >= end) continue;
      std::vector<Cost>& tie = problem.variables[at(edge.from)].edit();
      const std::size_t count = problem.variables[at(edge.to)].size();
      for (std::size_t c = 0; c < tie.size(); ++c) {
        if (edge.costs[c * count + at(choice[at(edge.to - begin)])] == kForbidden) tie[c] = kForbidden;
      }
    }
    return problem;
  }

  const SharedTensors& shared_;
  std::vector<Tie> ties_;
};

}  // namespace

FoundPlans find_plans_together(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                               const Mesh& mesh, const SolveOptions& effort) {
  FoundPlans result;
  const int ranks = mesh.ranks();
  const SearchOptions& first = programs[0].options;
  if (mesh.size() == 1 && ranks > 1) {
    for (const PlannedProgram& program : programs)
      if (result.obstacle.empty()) result.obstacle = Obstacles(*program.graph).of(ranks).value_or("");
  }
  Together together(programs, shared, mesh);
  if (together.large()) {
    result.obstacle = "its axes are too many choices together for several programs";
    return result;
  }
  together.prepare();
  const Cost whole = first.obey ? whole_product(steps_of(programs)) : 0;
  std::vector<Solution> cheapest;  // of each alone
  const auto add = [&](std::string name, const Found& found) {
    std::vector<FoundPlan> plans;
    analysis::Time predicted, floor, loads, order;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      Own& own = *together.all[p];
      const std::vector<int>& choice = found.choices[p];
      const SplitCosts costs = split_costs(programs[p].costs);
      Solution solution;
      solution.status = Status::kFeasible;
      solution.choice = choice;
      const SplitChoice described = own.space.described(costs, {std::move(solution)});
      FoundPlan& plan = plans.emplace_back();
      plan.name = name;
      plan.text = to_string(described.plan);
      plan.at_points = own.points.prices(own.space, choice);
      plan.own = plan.predicted = own.points.sum(plan.at_points);
      if (!cheapest.empty()) {
        // Limits may have added variables.
        std::vector<int> alone = cheapest[p].choice;
        alone.resize(own.plans.problem->variables.size());
        plan.alone.ps = price(*own.plans.problem, alone);
      }
      plan.counted_bytes = bytes_counted(own.plans.rows, choice);
      describe(*programs[p].graph, described, costs, plan);
      predicted.ps += plan.own.ps;
      floor.ps += own.bound(choice, true).order.ps;
    }
    FoundPlan plan = std::move(plans[0]);
    plan.with.assign(std::make_move_iterator(plans.begin() + 1), std::make_move_iterator(plans.end()));
    plan.predicted = predicted;
    plan.floor = floor;
    const auto text = [](const FoundPlan& one) {
      std::string all = one.text;
      for (const FoundPlan& other : one.with) all += other.text;
      return all;
    };
    if (std::ranges::any_of(result.plans, [&](const FoundPlan& other) { return text(other) == text(plan); }))
      return;
    if (result.plans.empty()) {
      if (!first.obey) {
        plan.bound.ps = found.bound;
        plan.proved = found.proved;
      }
      for (std::size_t p = 0; p < programs.size(); ++p) {
        // One rank has one plan.
        const PlanBounds own = together.all[p]->bound(found.choices[p], ranks == 1);
        result.loads.ps += own.loads.ps;
        result.order.ps += own.order.ps;
      }
    }
    result.plans.push_back(std::move(plan));
  };
  const auto pads = [&](const Found& found) {
    for (std::size_t p = 0; p < programs.size(); ++p)
      if (together.all[p]->space.pads(found.choices[p])) return true;
    return false;
  };
  for (const Variant& variant : kVariants) {
    const SplitCostOptions costs{variant.communication, whole};
    const std::vector<Solution> alone = together.alone(costs, false);
    if (&variant == &kCheapest) cheapest = alone;
    const Found found = together.choose(costs, false, alone, effort);
    if (found.choices.empty()) {
      if (!result.plans.empty()) break;
      for (const auto& own : together.all) {
        const Problem allowed = own->plans.allowed();
        for (const MemoryRows& rows : own->plans.rows) tell_least(rows, rows.least(allowed, effort), result);
      }
      if (result.least_bytes == 0)
        result.obstacle = "no layout of the weights keeps the limits of all programs";
      break;
    }
    add(variant.name, found);
    if (ranks == 1) break;
    if (!pads(found)) continue;
    if (const Found even = together.choose(costs, true, together.alone(costs, true), effort);
        !even.choices.empty())
      add(std::string(variant.name) + ", no padding", even);
  }
  return result;
}

}  // namespace braid::split
