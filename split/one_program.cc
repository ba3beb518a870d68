#include "split/one_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parallel.h"
#include "split/choose_split.h"
#include "split/found_plan.h"
#include "split/machine_costs.h"

namespace braid::split {
namespace {

// Returns the least factor, within 1 %, at which the text of the plan changes. Looks only between the last
// doubling with the same text and the next one; 0: none up to 64.
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
      // The costs cannot be added up with that factor, so nothing is known.
      if (error.code() != errors::kSplitCost) throw;
      return plan;
    }
  };
  PlanFlips flips;
  ir::parallel_for(4, [&](std::size_t k) {
    if (k == 0) flips.link_slower = flip_of(plan, [&](double f) { return plan_at(f, 1); });
    if (k == 1) flips.link_faster = flip_of(plan, [&](double f) { return plan_at(1 / f, 1); });
    if (k == 2) flips.memory_slower = flip_of(plan, [&](double f) { return plan_at(1, 1 / f); });
    if (k == 3) flips.memory_faster = flip_of(plan, [&](double f) { return plan_at(1, f); });
  });
  for (double* part : {&flips.link_faster, &flips.memory_slower})
    if (*part > 0) *part = 1 / *part;
  return flips;
}

SolveOptions few_cells() {
  SolveOptions effort;
  effort.budget >>= 4;
  return effort;
}

class OneProgram final : public PlanChooser {
 public:
  explicit OneProgram(const PlanSpace& plans)
      : plans_(plans),
        options_(plans.options),
        space_(plans.space),
        points_(plans.points),
        whole_(options_.obey ? whole_product(points_.steps()) : 0) {}

  ChosenPlans cheapest(FoundPlans& facts) override {
    std::optional<SpaceSolution> own = search_unlimited(kCheapest);
    if (!own && find_within(facts)) own = search_within(kCheapest);
    ChosenPlans chosen = own ? chosen_of(std::move(*own)) : ChosenPlans();
    if (!chosen.programs.empty()) {
      if (within_.empty() && !plans_.rows.empty()) keeps_limits(chosen.programs.front().solution.choice);
    } else {
      for (const MemoryRows& rows : plans_.rows)
        tell_least(rows, plans_.problem ? rows.least(plans_.allowed(), few_cells()) : *least_, facts);
    }
    return chosen;
  }
  ChosenPlans choose(const Variant& variant) const override {
    std::optional<SpaceSolution> found = search_unlimited(variant);
    return chosen_of(found ? std::move(*found) : search_within(variant));
  }
  ChosenPlans without_padding(const Variant& variant) const override {
    if (!plans_.problem) return {};
    SpaceSolution even = solved(
        {variant.communication, whole_},
        [&](Problem& restricted) {
          if (plans_.restrict) plans_.restrict(restricted);
          space_.forbid_padding(restricted);
        },
        effort(false));
    return even.solution.feasible() ? chosen_of(std::move(even)) : ChosenPlans();
  }

  // Any plan takes at least the least cost of nodes without their communication, so the cheapest plan's
  // excess over that is the most to be gained. A thousandth of its time does not matter.
  bool gains_by_hiding(const ChosenPlans& cheapest) const override {
    if (points_.several() || whole_ > 0) return true;
    const SplitCosts costs = plans_.costs(), free = plans_.costs({0, 0});
    const SplitChoice choice = space_.described(costs, cheapest.programs.front());
    return choice.price(plans_.graph, free) - space_.least_of_nodes(free) >
           choice.price(plans_.graph, costs) / 1000;
  }
  analysis::Time alone(ProgramId) const override { return {}; }
  PlanFlips flips(const FoundPlan& cheapest) const override {
    if (!plans_.problem) return {};
    SolveOptions effort;
    if (!plans_.rows.empty()) {
      // It is enough to know whether there is a cheaper plan.
      effort.known = plans_.completed(cheapest.choice);
      effort.any_cheaper = true;
      effort.budget >>= 3;
    }
    return find_flips(
        [&](const SplitCostOptions& own) {
          return space_.described(plans_.costs(own), solved(own, plans_.restrict, effort));
        },
        whole_, cheapest.text);
  }

 private:
  ChosenPlans chosen_of(SpaceSolution own) const {
    ChosenPlans chosen;
    if (own.solution.feasible()) {
      chosen.bound = own.solution.bound;
      chosen.proved = own.solution.proved();
      chosen.programs.push_back(std::move(own));
    } else if (!plans_.kept && plans_.rows.empty()) {
      require_kept(own.solution);
    }
    return chosen;
  }

  SpaceSolution solved(const SplitCostOptions& own, const Restrict& more, SolveOptions effort = {}) const {
    if (!points_.several()) return space_.solved(plans_.costs(own), effort, more);
    return space_.solved(plans_.costs(own), effort, [&](Problem& first) {
      points_.add_others(first, space_, own);
      if (more) more(first);
    });
  }
  // A search under a binding limit may spend its whole budget, so the first search has the largest one.
  SolveOptions effort(bool is_first) const {
    SolveOptions effort;
    if (!plans_.rows.empty() && (options_.cheapest_only || !is_first)) effort.budget >>= 3;
    return effort;
  }
  // nullopt if that takes more memory than there is.
  std::optional<SpaceSolution> search_unlimited(const Variant& variant) const {
    const SplitCostOptions own{variant.communication, whole_};
    const bool limited = !plans_.rows.empty();
    SpaceSolution found;
    if (plans_.problem) {
      Restrict kept;
      if (plans_.kept) kept = [this](Problem& problem) { plans_.kept->restrict(problem); };
      found = solved(own, kept, limited ? few_cells() : SolveOptions());
      if (limited && !found.solution.proved()) return std::nullopt;
      if (limited && !plans_.kept) require_kept(found.solution);
    } else {
      found = solved_split(space_, plans_.costs(own));
    }
    if (limited && found.solution.feasible() &&
        bytes_counted(plans_.rows, found.solution.choice) > *options_.memory)
      return std::nullopt;
    return found;
  }
  SpaceSolution search_within(const Variant& variant) const {
    const SplitCostOptions own{variant.communication, whole_};
    SolveOptions effort = this->effort(&variant == &kCheapest);
    SpaceSolution found;
    if (plans_.problem) {
      effort.known = within_;
      found = solved(own, plans_.restrict, effort);
    } else if (!within_.empty()) {
      const SplitCosts costs = plans_.costs(own);
      const auto limit = [&](const SplitSpace& part, Problem& problem) {
        MemoryRows(plans_.graph, part, costs.size).limit(problem, *options_.memory);
      };
      // A plan that splits one dimension over all axes cannot be found by searching one axis at a time.
      Assignment from = within_;
      if (const SplitSpace alike = SplitSpace::alike(space_); !alike.large()) {
        const Solution cheap =
            alike.solved(costs, few_cells(), [&](Problem& problem) { limit(alike, problem); }).solution;
        if (cheap.feasible()) {
          Assignment choice = space_.choice_of(alike, cheap.choice);
          if (bytes_counted(plans_.rows, choice) <= *options_.memory &&
              cost_in_turn(costs, choice) < cost_in_turn(costs, from))
            from = std::move(choice);
        }
      }
      found = solved_in_turn(space_, costs, effort, std::move(from), limit);
    }
    // Limits leave out small weights.
    if (!within_.empty() &&
        (!found.solution.feasible() || bytes_counted(plans_.rows, found.solution.choice) > *options_.memory))
      return solution_within(own);
    return found;
  }
  SpaceSolution solution_within(const SplitCostOptions& own) const {
    SpaceSolution found = of_choice(within_);
    Assignment& choice = found.solution.choice;
    if (plans_.problem) {
      choice.resize(space_.variables().size());
      found.solution.cost = price(points_.problem(space_, own), choice);
    } else {
      found.solution.cost = cost_in_turn(plans_.costs(own), choice);
    }
    return found;
  }
  SpaceSolution of_choice(const Assignment& choice) const {
    SpaceSolution own;
    own.joint = plans_.problem.has_value();
    own.solution.choice = choice;
    own.solution.status = Status::kFeasible;
    return own;
  }
  // The cost of a choice in a large space.
  Cost cost_in_turn(const SplitCosts& costs, const Assignment& choice) const {
    return space_.described(costs, of_choice(choice)).price(plans_.graph, costs);
  }

  // Finds a plan that the limits of memory allow, as a start for searches, if it can. Returns false if there
  // is none.
  bool find_within(FoundPlans& facts) {
    const std::int64_t limit = *options_.memory;
    if (!plans_.problem) {
      const SplitCosts costs = plans_.costs();
      least_ = least_in_turn(plans_.graph, space_, costs, limit, solved_split(space_, costs).solution.choice,
                             few_cells());
      if (least_->reached <= limit) keeps_limits(least_->choice);
      begin_cheaply(facts, [&](const Assignment& choice) { return cost_in_turn(costs, choice); });
      return least_->bytes <= limit;
    }
    const Problem problem = plans_.allowed();
    for (const MemoryRows& own : plans_.rows) {
      const LeastMemory least = own.least(problem, few_cells(), limit);
      if (least.bytes > limit) return false;
      if (within_.empty() && !least.choice.empty() && bytes_counted(plans_.rows, least.choice) <= limit)
        keeps_limits(least.choice);
    }
    begin_cheaply(facts, [&](const Assignment& choice) { return price(problem, choice); });
    return true;
  }
  // The plan with the least memory often converts back and forth and is far from cheap, so cheaper plans are
  // tried as a start.
  void begin_cheaply(FoundPlans& facts, const std::function<Cost(const Assignment&)>& cost_of) {
    if (within_.empty() || points_.several()) return;
    facts.priced = options_.priced.empty() ? choices_at_prices() : options_.priced;
    Assignment known = within_;
    known.resize(plans_.problem ? space_.variables().size() : known.size());
    Cost least = cost_of(known);
    for (const Assignment& choice : facts.priced) {
      if (bytes_counted(plans_.rows, choice) > *options_.memory) continue;
      const Cost cost = cost_of(choice);
      if (cost >= least) continue;
      least = cost;
      known = choice;
    }
    keeps_limits(known);
  }
  std::vector<Assignment> choices_at_prices() const {
    if (plans_.problem) return plans_.rows[0].at_prices(plans_.allowed());
    const SplitSpace alike = SplitSpace::alike(space_);
    if (alike.large()) return {};
    const SplitCosts costs = plans_.costs();
    std::vector<Assignment> all;
    for (const Assignment& choice :
         MemoryRows(plans_.graph, alike, costs.size).at_prices(alike.problem(costs)))
      all.push_back(space_.choice_of(alike, choice));
    return all;
  }
  void keeps_limits(const Assignment& choice) {
    within_ = plans_.problem ? plans_.completed(choice) : choice;
  }

  const PlanSpace& plans_;
  const SearchOptions& options_;
  const SplitSpace& space_;
  const PricePoints& points_;
  Cost whole_;                        // SplitCostOptions
  std::optional<LeastMemory> least_;  // of a large space, under limits
  Assignment within_;                 // keeps the limits of memory; empty if there are none, or none is known
};

}  // namespace

std::unique_ptr<PlanChooser> chooser_of_one(const PlanSpace& plans) {
  return std::make_unique<OneProgram>(plans);
}

}  // namespace braid::split
