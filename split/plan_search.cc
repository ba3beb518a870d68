#include "split/plan_search.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <string>
#include <utility>

#include "ir/parallel.h"
#include "split/found_plan.h"
#include "split/machine_costs.h"
#include "split/obstacles.h"
#include "split/one_program.h"
#include "split/step_bounds.h"
#include "split/together.h"

namespace braid::split {
namespace {

class PlanSearch {
 public:
  PlanSearch(const Mesh& mesh, std::span<const PlannedProgram> programs, const KnownWorks& works)
      : options_(programs[0].options), ranks_(mesh.ranks()), one_axis_(mesh.size() == 1) {
    for (std::size_t p = 0; p < programs.size(); ++p)
      spaces_.push_back(std::make_unique<PlanSpace>(programs[p], mesh, works[p]));
  }

  FoundPlans run(const SharedTensors& shared, const KnownBounds& known, const SolveOptions& effort) {
    if (result_.obstacle = too_large(); !result_.obstacle.empty()) return std::move(result_);
    for (const auto& plans : spaces_) plans->make_problem(options_.explain || several());
    chooser_ = several() ? chooser_of_several(spaces_, shared, effort) : chooser_of_one(*spaces_.front());
    search(several() ? KnownBounds{} : known);
    if (one_axis_ && ranks_ > 1 && std::ranges::all_of(result_.plans, splits_nothing)) tell_obstacle();
    if (options_.explain && ranks_ > 1 && !found_.empty())
      result_.flips = chooser_->flips(result_.plans.front());
    return std::move(result_);
  }

 private:
  struct Found {
    ChosenPlans chosen;
    FoundPlan plan;  // without its floor
  };

  bool several() const { return spaces_.size() > 1; }

  // Plans of such a space are chosen on one axis after another, and such problems cannot be added.
  std::string too_large() const {
    for (const auto& plans : spaces_) {
      if (!plans->space.large()) continue;
      if (several()) return "its axes are too many choices together for several programs";
      if (plans->points.several())
        return "its axes are too many choices together to be priced at several sizes";
    }
    return "";
  }

  static bool splits_nothing(const FoundPlan& plan) {
    return plan.splits_nothing() && std::ranges::all_of(plan.with, &FoundPlan::splits_nothing);
  }

  void tell_obstacle() {
    for (const auto& plans : spaces_) {
      if (result_.obstacle.empty()) result_.obstacle = Obstacles(plans->graph).of(ranks_).value_or("");
    }
  }

  // Finds all plans, and bounds.
  void search(const KnownBounds& known) {
    // The others wait for the cheapest plan.
    std::promise<bool> told;  // whether there is one
    const std::shared_future<bool> cheapest = told.get_future().share();
    std::vector<Found> others, hidden;
    bool ends = false;  // no plan is found
    ir::parallel_for(3, [&, cheapest](std::size_t k) {
      if (k == 0) {
        try {
          keep(kCheapest, chooser_->cheapest(result_), found_);
        } catch (...) {
          told.set_value(false);
          throw;
        }
        told.set_value(!found_.empty());
        if (seeks_others()) ends = !keep(kFewer, chooser_->choose(kFewer), others);
      } else if (k == 1) {
        for (const auto& plans : spaces_) bounds_.emplace_back(*plans, SplitSpace::kFewRelaxed, known);
        if (cheapest.get()) bound_all(found_.front().chosen);
      } else if (cheapest.get() && seeks_others()) {
        find_hidden(hidden);
      }
    });
    if (!ends) std::ranges::move(hidden, std::back_inserter(others));
    std::ranges::move(others, std::back_inserter(found_));
    for (Found& found : found_) add(std::move(found));
  }

  bool seeks_others() const { return !found_.empty() && ranks_ > 1 && !options_.cheapest_only; }

  void bound_all(const ChosenPlans& seed) {
    for (const ProgramId p : spaces_.ids()) {
      const Assignment& choice = seed.programs[p].solution.choice;
      // One rank has one plan.
      const PlanBounds own = ranks_ == 1 ? bounds_[p].of_plan(choice) : bounds_[p].over_plans(choice);
      result_.loads += own.loads;
      result_.order += own.order;
    }
  }

  // Keeps what was chosen for the variant. If that pads, also keeps what is chosen without padding: padding
  // can save less in a product than odd sizes cost the kernels around it. Returns whether there was a plan.
  bool keep(const Variant& variant, ChosenPlans chosen, std::vector<Found>& found) const {
    if (chosen.programs.empty()) return false;
    const bool pads = this->pads(chosen);
    describe(variant.name, std::move(chosen), found);
    if (!pads || ranks_ == 1) return true;
    if (ChosenPlans even = chooser_->without_padding(variant); !even.programs.empty())
      describe(std::string(variant.name) + ", no padding", std::move(even), found);
    return true;
  }

  bool pads(const ChosenPlans& chosen) const {
    return std::ranges::any_of(spaces_.ids(), [&](ProgramId p) {
      return spaces_[p]->problem && spaces_[p]->space.pads(chosen.programs[p].solution.choice);
    });
  }

  void find_hidden(std::vector<Found>& found) const {
    const ChosenPlans& cheapest = found_.front().chosen;
    if (!chooser_->gains_by_hiding(cheapest)) return;
    ChosenPlans hidden = chooser_->choose(kHidden);
    // Costs with half hidden communication lie between those of both searches, up to rounding of a
    // picosecond. If these took the same sequence of choices, that search would take it, too.
    const bool same =
        !pads(cheapest) && !hidden.programs.empty() && std::ranges::all_of(spaces_.ids(), [&](ProgramId p) {
          const std::vector<Assignment>& way = cheapest.programs[p].way;
          return !way.empty() && hidden.programs[p].way == way;
        });
    if (!same && !keep(kHalfHidden, chooser_->choose(kHalfHidden), found)) return;
    keep(kHidden, std::move(hidden), found);
  }

  // Adds the plans that were chosen, unless they are known.
  void describe(const std::string& name, ChosenPlans chosen, std::vector<Found>& found) const {
    const auto are_own = [&](const Found& known) {
      return std::ranges::all_of(spaces_.ids(), [&](ProgramId p) {
        return known.chosen.programs[p].solution.choice == chosen.programs[p].solution.choice;
      });
    };
    if (std::ranges::any_of(found, are_own) || (!found_.empty() && are_own(found_.front()))) return;
    std::vector<FoundPlan> plans;
    for (const ProgramId p : spaces_.ids()) plans.push_back(plan_of(p, name, chosen.programs[p]));
    FoundPlan plan = std::move(plans.front());
    plan.with.assign(std::make_move_iterator(plans.begin() + 1), std::make_move_iterator(plans.end()));
    for (const FoundPlan& other : plan.with) plan.predicted += other.own;
    found.push_back({std::move(chosen), std::move(plan)});
  }

  FoundPlan plan_of(ProgramId p, const std::string& name, const SpaceSolution& solution) const {
    const PlanSpace& plans = *spaces_[p];
    const SplitCosts costs = plans.costs();  // keeps what it is asked: one per thread
    const SplitChoice choice = plans.space.described(costs, solution);
    FoundPlan plan;
    plan.name = name;
    plan.text = to_string(choice.plan);
    plan.choice = choice.solution.choice;
    if (plans.points.several()) {
      plan.at_points = plans.points.prices(plans.space, plan.choice);
      plan.own = plans.points.sum(plan.at_points);
    } else {
      plan.own.ps = choice.price(plans.graph, costs);
    }
    plan.predicted = plan.own;
    plan.alone = chooser_->alone(p);
    plan.joint = choice.joint;
    plan.counted_bytes = bytes_counted(plans.rows, plan.choice);
    split::describe(plans.graph, choice, costs, plan);
    return plan;
  }

  static std::string text_of(const FoundPlan& plan) {
    std::string all = plan.text;
    for (const FoundPlan& other : plan.with) all += other.text;
    return all;
  }

  // Adds a plan to the result, unless one with the same texts is there.
  void add(Found found) {
    FoundPlan& plan = found.plan;
    if (std::ranges::find(result_.plans, text_of(plan), text_of) != result_.plans.end()) return;
    for (const ProgramId p : spaces_.ids())
      plan.floor += bounds_[p].of_plan(found.chosen.programs[p].solution.choice).order;
    if (result_.plans.empty() && !options_.obey) {
      plan.bound.ps = found.chosen.bound;
      plan.proved = found.chosen.proved;
    }
    result_.plans.push_back(std::move(plan));
  }

  const SearchOptions& options_;
  int ranks_;
  bool one_axis_;
  ProgramSpaces spaces_;
  std::unique_ptr<PlanChooser> chooser_;
  IdVector<ProgramId, StepBounds> bounds_;
  std::vector<Found> found_;
  FoundPlans result_;
};

}  // namespace

KnownWorks known_works(std::span<const PlannedProgram> programs) {
  KnownWorks works;
  for (const PlannedProgram& program : programs) works.push_back(known_work(*program.graph, *program.costs));
  return works;
}

FoundPlans find_plans_on(const Mesh& mesh, std::span<const PlannedProgram> programs,
                         const SharedTensors& shared, const KnownWorks& works, const KnownBounds& known,
                         const SolveOptions& effort) {
  return PlanSearch(mesh, programs, works).run(shared, known, effort);
}

}  // namespace braid::split
