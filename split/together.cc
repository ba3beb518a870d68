#include "split/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
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
#include "split/step_bounds.h"

namespace braid::split {
namespace {

// One program on the mesh.
struct Own {
  Own(const PlannedProgram& planned, const Mesh& mesh)
      : program(planned), plans(*planned.graph, mesh, planned.costs, planned.options) {}
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  // Prepares the search; the space must not be large.
  void prepare() {
    plans.make_problem(program.options, true);
    bounds.emplace(plans, program.options, SplitSpace::kMostRelaxed);
  }

  Problem problem(const SplitCostOptions& costs, bool even) const {
    Problem own = points.problem(space, costs);
    if (plans.restrict) plans.restrict(own);
    if (even) space.forbid_padding(own);
    return own;
  }

  const PlannedProgram& program;
  PlanSpace plans;
  const Graph& graph = plans.graph;
  const SplitSpace& space = plans.space;
  const PricePoints& points = plans.points;
  std::optional<StepBounds> bounds;
};

// Plans for all programs.
struct Found {
  IdVector<ProgramId, Assignment> choices;  // empty: none
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

  std::int64_t steps() const {
    std::int64_t steps = 0;
    for (const auto& own : all) steps += own->points.steps();
    return steps;
  }

  void prepare() {
    for (const auto& own : all) own->prepare();
    add_weights();
    add_caches();
  }

  // The cheapest plans. `alone`: those that each program has without the others; empty if one has none.
  Found choose(const SplitCostOptions& costs, bool even, const IdVector<ProgramId, Solution>& alone,
               const SolveOptions& options) const {
    IdVector<ProgramId, Problem> own;
    for (const auto& one : all) own.push_back(one->problem(costs, even));
    const Joined joined = join(own);
    Solution best = solve(joined.problem, options);
    if (!best.proved()) {
      // Every program's own layout, in an order that does not depend on theirs.
      Cost sum = 0;
      for (const Solution& one : alone) sum += one.bound;
      best.bound = std::max(best.bound, sum);
      for (const ProgramId p : joined.programs) {
        if (alone.empty()) break;
        const Solution other = solve(with_layout_of(p, alone[p].choice, joined));
        if (!other.feasible() || (best.feasible() && other.cost >= best.cost)) continue;
        best.choice = other.choice;
        best.cost = other.cost;
        best.status = best.cost == best.bound ? Status::kOptimal : Status::kFeasible;
      }
    }
    Found found{{}, best.bound, best.proved()};
    if (!best.feasible()) return found;
    for (const ProgramId p : all.ids()) {
      const std::span<const ChoiceId> own_choice =
          best.choice.slice(joined.first[p], joined.first[p] + count_of(all[p]->space.variables()));
      found.choices.emplace_back(own_choice.begin(), own_choice.end());
    }
    return found;
  }

  IdVector<ProgramId, Solution> alone(const SplitCostOptions& costs, bool even) const {
    IdVector<ProgramId, Solution> solutions;
    for (const auto& own : all) {
      solutions.push_back(solve(own->problem(costs, even)));
      if (!solutions.back().feasible()) return {};
    }
    return solutions;
  }

  IdVector<ProgramId, std::unique_ptr<Own>> all;

 private:
  // A variable that ties others to one of its choices, and tables from it to each of them.
  struct Tie {
    struct End {
      ProgramId program;
      VariableId variable;
      int input = 0;
      CostTable allowed;  // by choice of the tie and choice of the variable: free or forbidden
    };
    std::size_t choices = 0;
    std::vector<End> ends;
  };
  using TieId = ir::Id<struct TieTag>;
  struct Joined {
    Problem problem;
    std::vector<ProgramId> programs;        // in the order in which they are in it
    IdVector<ProgramId, VariableId> first;  // of each program's variables
    VariableId ties;                        // of the first one

    // The variable that one of a program is in it.
    VariableId variable(ProgramId program, VariableId own) const { return first[program] + own.index; }
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
        for (const ChoiceId c : space->choices_of(variable))
          own.insert(space->taken_state(variable, c, reader.input));
        free = free || own.size() > 1;
        if (first) common = own;
        first = false;
        std::erase_if(common, [&](const MeshSpec& state) { return own.count(state) == 0; });
      }
      if (!free) continue;  // whole everywhere
      const std::vector<MeshSpec> states(common.begin(), common.end());
      ir::internal_check(!states.empty(), "a weight has no layout");
      Tie tie{states.size(), {}};
      for (const SharedWeight::Reader& reader : weight.readers) {
        const auto [space, variable] = of(reader);
        const auto [table, fresh] =
            tables.try_emplace({space->address_of_choices(variable), reader.input, states});
        if (fresh) {
          std::vector<Cost> costs;
          for (const MeshSpec& state : states) {
            for (const ChoiceId c : space->choices_of(variable))
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
      const Own &from = *all[cache.from], &to = *all[cache.to];
      const VariableId given = to.space.variable_of_cache_input(cache.input);
      const VariableId returned = from.space.variable_of_cache_output(cache.output);
      if (!given.valid() && !returned.valid()) continue;  // both whole
      const GraphValue& a = from.graph.values[from.graph.outputs[cache.output]];
      const GraphValue& b = to.graph.values[cache.input];
      const auto fits = [&](const MeshSpec& state) {
        return std::ranges::all_of(state, [&](const Spec& s) {
          if (!s.is_split()) return !s.is_pending();
          const auto size = static_size(a.sizes[s.dim]);
          return size && size == static_size(b.sizes[s.dim]);
        });
      };
      const MeshSpec whole(to.space.mesh().axes.size());
      const auto states_of = [&](const SplitSpace& space, VariableId variable) {
        if (!variable.valid()) return std::vector<MeshSpec>{whole};
        std::vector<MeshSpec> states;
        for (const ChoiceId c : space.choices_of(variable))
          states.push_back(space.produced_state(variable, c, 0));
        return states;
      };
      const std::vector<MeshSpec> one = states_of(from.space, returned), other = states_of(to.space, given);
      std::vector<MeshSpec> common;
      for (const MeshSpec& state : one) {
        if (fits(state) && std::ranges::find(other, state) != other.end()) common.push_back(state);
      }
      std::ranges::sort(common);
      Tie tie{common.size(), {}};
      const auto add = [&](ProgramId program, VariableId variable, const std::vector<MeshSpec>& states) {
        if (!variable.valid()) return;
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

  std::pair<const SplitSpace*, VariableId> of(const SharedWeight::Reader& reader) const {
    const SplitSpace& space = all[reader.program]->space;
    return {&space, space.variable_of(reader.node)};
  }

  // Compares problems by content, so the order in which programs were given decides nothing.
  static bool before(const Problem& a, const Problem& b) {
    if (a.variables != b.variables) return a.variables < b.variables;
    return std::ranges::lexicographical_compare(a.edges, b.edges, [](const Edge& x, const Edge& y) {
      const auto ends = [](const Edge& e) { return std::tuple(e.from, e.to); };
      return ends(x) != ends(y) ? ends(x) < ends(y) : x.costs < y.costs;
    });
  }

  Joined join(const IdVector<ProgramId, Problem>& own) const {
    Joined joined;
    joined.programs.assign(own.ids().begin(), own.ids().end());
    std::ranges::stable_sort(joined.programs,
                             [&](ProgramId a, ProgramId b) { return before(own[a], own[b]); });
    joined.first.resize(own.size());
    Problem& problem = joined.problem;
    for (const ProgramId p : joined.programs) {
      joined.first[p] = problem.variables.end_id();
      const Problem& one = own[p];
      problem.variables.insert(problem.variables.end(), one.variables.begin(), one.variables.end());
      for (const Edge& edge : one.edges)
        problem.edges.push_back({joined.variable(p, edge.from), joined.variable(p, edge.to), edge.costs});
      const int rows = count_of(problem.limits);
      problem.limits.insert(problem.limits.end(), one.limits.begin(), one.limits.end());
      for (Usage usage : one.usages) {
        usage.variable = joined.variable(p, usage.variable);
        for (RowRange& range : usage.rows) range = {range.begin + rows, range.end + rows};
        problem.usages.push_back(std::move(usage));
      }
    }
    joined.ties = problem.variables.end_id();
    for (const TieId t : Interleaving(*this, own, joined).run()) {
      const Tie& tie = ties_[t];
      const VariableId variable = problem.variables.end_id();
      problem.variables.emplace_back(std::vector<Cost>(tie.choices, 0));
      for (const ProgramId p : joined.programs) {
        for (const Tie::End& end : tie.ends) {
          if (end.program == p)
            problem.edges.push_back({variable, joined.variable(p, end.variable), end.allowed});
        }
      }
    }
    return joined;
  }

  // Sets the order: equal layers of all programs follow one another, with the ties between them.
  class Interleaving {
   public:
    Interleaving(const Together& together, const IdVector<ProgramId, Problem>& own, Joined& joined)
        : ties_(together.ties_), joined_(joined), placed_(ties_.ids(), 0) {
      for (const ProgramId p : own.ids()) {
        order_.emplace_back(own[p].order);
        place_.emplace_back(own[p].variables.ids());
        tied_.emplace_back(own[p].variables.size());
        for (const Place k : order_[p].ids()) place_[p][order_[p][k]] = k;
      }
      next_.assign(own.ids(), Place{0});
      for (const TieId t : ties_.ids()) {
        for (const Tie::End& end : ties_[t].ends) tied_[end.program][place_of(end)].push_back({end.input, t});
      }
      for (auto& of_program : tied_) {
        for (auto& here : of_program) std::ranges::sort(here);
      }
    }

    // Returns the ties in the order of their variables.
    std::vector<TieId> run() {
      for (const ProgramId p : joined_.programs) advance(p, order_[p].end_id() - 1);
      return std::move(order_of_ties_);
    }

   private:
    using Place = ir::Id<struct PlaceTag>;  // in the order of a program's problem

    Place place_of(const Tie::End& end) const { return place_[end.program][end.variable]; }

    // Adds all variables of a program up to a place, with the variables tied to them.
    void advance(ProgramId p, Place end) {
      while (next_[p] <= end) {
        const Place here = next_[p]++;
        joined_.problem.order.push_back(joined_.variable(p, order_[p][here]));
        for (const auto& [input, t] : tied_[p][here]) {
          if (std::exchange(placed_[t], 1) != 0) continue;
          joined_.problem.order.push_back(joined_.ties + count_of(order_of_ties_));
          order_of_ties_.push_back(t);
          for (const ProgramId other : joined_.programs) {
            Place first;
            for (const Tie::End& e : ties_[t].ends) {
              if (e.program == other && (!first.valid() || place_of(e) < first)) first = place_of(e);
            }
            advance(other, first);
          }
        }
      }
    }

    const IdVector<TieId, Tie>& ties_;
    Joined& joined_;
    IdVector<ProgramId, IdVector<Place, VariableId>> order_;
    IdVector<ProgramId, IdVector<VariableId, Place>> place_;
    // Inputs that are tied, and to what. Their numbers come from names, which decide nothing.
    IdVector<ProgramId, IdVector<Place, std::vector<std::pair<int, TieId>>>> tied_;
    IdVector<ProgramId, Place> next_;
    IdVector<TieId, char> placed_;
    std::vector<TieId> order_of_ties_;
  };

  // Returns the problem with the ties of a program set as in its own choice.
  static Problem with_layout_of(ProgramId p, const Assignment& choice, const Joined& joined) {
    Problem problem = joined.problem;
    const VariableId begin = joined.first[p], end = begin + count_of(choice);
    for (const solver::EdgeId e : joined.problem.edges.ids()) {
      const Edge& edge = joined.problem.edges[e];
      if (edge.from < joined.ties || edge.to < begin || edge.to >= end) continue;
      const ChoiceId own = choice[VariableId{edge.to - begin}];
      for (const ChoiceId c : problem.choices_of(edge.from)) {
        if (edge.costs[problem.cell_of(edge, c, own)] == kForbidden) problem.variables[edge.from].forbid(c);
      }
    }
    return problem;
  }

  const SharedTensors& shared_;
  IdVector<TieId, Tie> ties_;
};

class SearchTogether {
 public:
  SearchTogether(std::span<const PlannedProgram> programs, const SharedTensors& shared, const Mesh& mesh,
                 const SolveOptions& effort)
      : programs_(programs),
        options_(programs[0].options),
        ranks_(mesh.ranks()),
        effort_(effort),
        together_(programs, shared, mesh) {
    if (mesh.size() != 1 || ranks_ == 1) return;
    for (const PlannedProgram& program : programs) {
      if (result_.obstacle.empty()) result_.obstacle = Obstacles(*program.graph).of(ranks_).value_or("");
    }
  }

  FoundPlans run() {
    if (together_.large()) {
      result_.obstacle = "its axes are too many choices together for several programs";
      return std::move(result_);
    }
    together_.prepare();
    const Cost whole = options_.obey ? whole_product(together_.steps()) : 0;
    for (const Variant& variant : kVariants) {
      const SplitCostOptions costs{variant.communication, whole};
      const IdVector<ProgramId, Solution> alone = together_.alone(costs, false);
      if (&variant == &kCheapest) cheapest_ = alone;
      const Found found = together_.choose(costs, false, alone, effort_);
      if (found.choices.empty()) {
        if (result_.plans.empty()) tell_obstacle();
        break;
      }
      add(variant.name, found);
      if (ranks_ == 1) break;
      if (!pads(found)) continue;
      if (const Found even = together_.choose(costs, true, together_.alone(costs, true), effort_);
          !even.choices.empty())
        add(std::string(variant.name) + ", no padding", even);
    }
    return std::move(result_);
  }

 private:
  static std::string text_of(const FoundPlan& one) {
    std::string all = one.text;
    for (const FoundPlan& other : one.with) all += other.text;
    return all;
  }

  FoundPlan plan_of(ProgramId p, const std::string& name, const Assignment& choice) const {
    const Own& own = *together_.all[p];
    const SplitCosts costs = split_costs(programs_[p].costs);
    Solution solution;
    solution.status = Status::kFeasible;
    solution.choice = choice;
    const SplitChoice described = own.space.described(costs, {std::move(solution)});
    FoundPlan plan;
    plan.name = name;
    plan.text = to_string(described.plan);
    plan.at_points = own.points.prices(own.space, choice);
    plan.own = plan.predicted = own.points.sum(plan.at_points);
    if (!cheapest_.empty()) {
      // Limits may have added variables.
      Assignment alone = cheapest_[p].choice;
      alone.resize(own.plans.problem->variables.size());
      plan.alone.ps = price(*own.plans.problem, alone);
    }
    plan.counted_bytes = bytes_counted(own.plans.rows, choice);
    describe(*programs_[p].graph, described, costs, plan);
    return plan;
  }

  // Adds the plans, unless they are there already.
  void add(const std::string& name, const Found& found) {
    std::vector<FoundPlan> plans;
    analysis::Time predicted, floor;
    for (const ProgramId p : programs_.ids()) {
      plans.push_back(plan_of(p, name, found.choices[p]));
      predicted.ps += plans.back().own.ps;
      floor.ps += together_.all[p]->bounds->of_plan(found.choices[p]).order.ps;
    }
    FoundPlan plan = std::move(plans[0]);
    plan.with.assign(std::make_move_iterator(plans.begin() + 1), std::make_move_iterator(plans.end()));
    plan.predicted = predicted;
    plan.floor = floor;
    if (std::ranges::find(result_.plans, text_of(plan), text_of) != result_.plans.end()) return;
    if (result_.plans.empty()) {
      if (!options_.obey) {
        plan.bound.ps = found.bound;
        plan.proved = found.proved;
      }
      for (const ProgramId p : programs_.ids()) {
        // One rank has one plan.
        StepBounds& bounds = *together_.all[p]->bounds;
        const PlanBounds own =
            ranks_ == 1 ? bounds.of_plan(found.choices[p]) : bounds.over_plans(found.choices[p]);
        result_.loads.ps += own.loads.ps;
        result_.order.ps += own.order.ps;
      }
    }
    result_.plans.push_back(std::move(plan));
  }

  bool pads(const Found& found) const {
    return std::ranges::any_of(programs_.ids(),
                               [&](ProgramId p) { return together_.all[p]->space.pads(found.choices[p]); });
  }

  void tell_obstacle() {
    for (const auto& own : together_.all) {
      const Problem allowed = own->plans.allowed();
      for (const MemoryRows& rows : own->plans.rows) tell_least(rows, rows.least(allowed, effort_), result_);
    }
    if (result_.least_bytes == 0)
      result_.obstacle = "no layout of the weights keeps the limits of all programs";
  }

  ir::IdSpan<ProgramId, const PlannedProgram> programs_;
  const SearchOptions& options_;
  int ranks_;
  const SolveOptions& effort_;
  FoundPlans result_;
  Together together_;
  IdVector<ProgramId, Solution> cheapest_;  // of each alone
};

}  // namespace

FoundPlans find_plans_together(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                               const Mesh& mesh, const SolveOptions& effort) {
  return SearchTogether(programs, shared, mesh, effort).run();
}

}  // namespace braid::split
