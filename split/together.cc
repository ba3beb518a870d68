#include "split/together.h"

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

namespace braid::split {
namespace {

class Together final : public PlanChooser {
 public:
  Together(const ProgramSpaces& spaces, const SharedTensors& shared, const SolveOptions& effort)
      : spaces_(spaces), shared_(shared), effort_(effort) {
    std::int64_t steps = 0;
    for (const auto& own : spaces_) steps += own->points.steps();
    if (spaces_.front()->options.obey) whole_ = whole_product(steps);
    add_weights();
    add_caches();
  }

  ChosenPlans cheapest(FoundPlans& facts) override {
    const SplitCostOptions costs{kCheapest.communication, whole_};
    const IdVector<ProgramId, Solution> alone = alone_plans(costs, false);
    for (const ProgramId p : alone.ids()) {
      // Limits may have added variables.
      const Problem& problem = *spaces_[p]->problem;
      Assignment own = alone[p].choice;
      own.resize(problem.variables.size());
      alone_.push_back({price(problem, own)});
    }
    ChosenPlans chosen = choose(costs, false, alone);
    if (chosen.programs.empty()) tell_obstacle(facts);
    return chosen;
  }
  ChosenPlans choose(const Variant& variant) const override { return choose(variant, false); }
  ChosenPlans without_padding(const Variant& variant) const override { return choose(variant, true); }
  bool gains_by_hiding(const ChosenPlans&) const override { return true; }
  analysis::Time alone(ProgramId program) const override {
    return alone_.empty() ? analysis::Time{} : alone_[program];
  }
  PlanFlips flips(const FoundPlan&) const override { return {}; }

 private:
  ChosenPlans choose(const Variant& variant, bool even) const {
    const SplitCostOptions costs{variant.communication, whole_};
    return choose(costs, even, alone_plans(costs, even));
  }

  // `alone`: the plans that each program has without the others; empty if one has none.
  ChosenPlans choose(const SplitCostOptions& costs, bool even,
                     const IdVector<ProgramId, Solution>& alone) const {
    IdVector<ProgramId, Problem> own;
    for (const auto& one : spaces_) own.push_back(problem(*one, costs, even));
    const Joined joined = join(own);
    Solution best = solve(joined.problem, effort_);
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
    ChosenPlans chosen{{}, best.bound, best.proved()};
    if (!best.feasible()) return chosen;
    for (const ProgramId p : spaces_.ids()) {
      const std::span<const ChoiceId> own_choice =
          best.choice.slice(joined.first[p], joined.first[p] + count_of(spaces_[p]->space.variables()));
      SpaceSolution& solution = chosen.programs.emplace_back();
      solution.solution.status = Status::kFeasible;
      solution.solution.choice = Assignment(own_choice.begin(), own_choice.end());
    }
    return chosen;
  }

  IdVector<ProgramId, Solution> alone_plans(const SplitCostOptions& costs, bool even) const {
    IdVector<ProgramId, Solution> solutions;
    for (const auto& own : spaces_) {
      solutions.push_back(solve(problem(*own, costs, even)));
      if (!solutions.back().feasible()) return {};
    }
    return solutions;
  }

  static Problem problem(const PlanSpace& plans, const SplitCostOptions& costs, bool even) {
    Problem own = plans.points.problem(plans.space, costs);
    if (plans.restrict) plans.restrict(own);
    if (even) plans.space.forbid_padding(own);
    return own;
  }

  void tell_obstacle(FoundPlans& facts) const {
    for (const auto& plans : spaces_) {
      const Problem allowed = plans->allowed();
      for (const MemoryRows& rows : plans->rows) tell_least(rows, rows.least(allowed, effort_), facts);
    }
    if (facts.least_bytes == 0) facts.obstacle = "no layout of the weights keeps the limits of all programs";
  }

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
      const PlanSpace &from = *spaces_[cache.from], &to = *spaces_[cache.to];
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
    const SplitSpace& space = spaces_[reader.program]->space;
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

  const ProgramSpaces& spaces_;
  const SharedTensors& shared_;
  SolveOptions effort_;
  Cost whole_ = 0;  // SplitCostOptions
  IdVector<TieId, Tie> ties_;
  IdVector<ProgramId, analysis::Time> alone_;  // empty: some program has no plan
};

}  // namespace

std::unique_ptr<PlanChooser> chooser_of_several(const ProgramSpaces& spaces, const SharedTensors& shared,
                                                const SolveOptions& effort) {
  return std::make_unique<Together>(spaces, shared, effort);
}

}  // namespace braid::split
