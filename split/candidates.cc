#include "split/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <iterator>
#include <numeric>
#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parallel.h"
#include "ir/shared_pool.h"
#include "split/choose_split.h"
#include "split/fixed_lines.h"
#include "split/found_plan.h"
#include "split/machine_costs.h"
#include "split/obstacles.h"
#include "split/plan_space.h"
#include "split/shared_tensors.h"
#include "split/step_bounds.h"
#include "split/together.h"

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

}  // namespace

analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const SearchOptions& options) {
  return least_time(graph, ranks, costs, bound_options(options, Mesh::line(ranks), options.attention_flops));
}

namespace {

// The plans of a graph on one mesh.
class MeshSearch {
 public:
  MeshSearch(const Graph& graph, const Mesh& mesh, std::shared_ptr<const analysis::CostModel> costs,
             const SearchOptions& options, std::shared_ptr<const KnownWork> work)
      : graph_(graph),
        options_(options),
        ranks_(mesh.ranks()),
        costs_(std::move(costs)),
        work_(std::move(work)),
        plans_(graph, mesh, costs_, options),
        space_(plans_.space),
        points_(plans_.points),
        whole_(options.obey ? whole_product(points_.steps()) : 0) {}

  FoundPlans run() {
    if (points_.several() && space_.large()) {
      result_.obstacle = "its axes are too many choices together to be priced at several sizes";
      return std::move(result_);
    }
    plans_.make_problem(options_, options_.explain);
    // The others wait for the cheapest plan.
    std::promise<bool> told;  // whether there is one
    const std::shared_future<bool> cheapest = told.get_future().share();
    PlanBounds all;
    std::vector<Found> others, hidden;
    bool ends = false;  // no plan is found
    ir::parallel_for(3, [&, cheapest](std::size_t k) {
      if (k == 0) {
        try {
          find_cheapest();
        } catch (...) {
          told.set_value(false);
          throw;
        }
        told.set_value(!found_.empty());
        if (seeks_others()) ends = !keep(kFewer, search(kFewer), others);
      } else if (k == 1) {
        bounds_.emplace(plans_, options_, SplitSpace::kFewRelaxed, options_.known);
        if (!cheapest.get()) return;
        const Assignment& seed = found_.front().choice.solution.choice;
        all = ranks_ == 1 ? bounds_->of_plan(seed) : bounds_->over_plans(seed);  // one rank has one plan
      } else if (cheapest.get() && seeks_others()) {
        find_hidden(hidden);
      }
    });
    if (!ends) std::ranges::move(hidden, std::back_inserter(others));
    std::ranges::move(others, std::back_inserter(found_));
    result_.loads = all.loads;
    result_.order = all.order;
    for (Found& found : found_) add(std::move(found));
    if (space_.mesh().size() == 1 && ranks_ > 1 &&
        std::ranges::all_of(result_.plans, &FoundPlan::splits_nothing))
      result_.obstacle = Obstacles(graph_).of(ranks_).value_or("");
    if (options_.explain && ranks_ > 1 && plans_.problem && !found_.empty()) explain();
    return std::move(result_);
  }

 private:
  struct Found {
    SplitChoice choice;
    FoundPlan plan;  // without its floor
  };

  SpaceSolution solved(const SplitCostOptions& own, const Restrict& more, SolveOptions effort = {}) const {
    if (!points_.several()) return space_.solved(split_costs(costs_, own, work_), effort, more);
    return space_.solved(split_costs(costs_, own, work_), effort, [&](Problem& first) {
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
  SpaceSolution search(const Variant& variant) const {
    std::optional<SpaceSolution> found = search_unlimited(variant);
    return found ? std::move(*found) : search_within(variant);
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
      found = solved_split(space_, split_costs(costs_, own, work_));
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
      const SplitCosts costs = split_costs(costs_, own, work_);
      const auto limit = [&](const SplitSpace& part, Problem& problem) {
        MemoryRows(graph_, part, costs.size).limit(problem, *options_.memory);
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
      found.solution.cost = cost_in_turn(split_costs(costs_, own, work_), choice);
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
    return space_.described(costs, of_choice(choice)).price(graph_, costs);
  }

  // Keeps what was found for the variant. If that pads, also keeps what is found without padding: padding can
  // save less in a product than odd sizes cost the kernels around it. Returns whether there was a plan.
  bool keep(const Variant& variant, SpaceSolution own, std::vector<Found>& found) const {
    if (!own.solution.feasible()) {
      if (!plans_.kept && plans_.rows.empty()) require_kept(own.solution);
      return false;
    }
    const bool pads = plans_.problem && space_.pads(own.solution.choice);
    describe(variant.name, std::move(own), found);
    if (!pads || ranks_ == 1) return true;
    SpaceSolution even = solved(
        {variant.communication, whole_},
        [&](Problem& restricted) {
          if (plans_.restrict) plans_.restrict(restricted);
          space_.forbid_padding(restricted);
        },
        effort(false));
    if (even.solution.feasible())
      describe(std::string(variant.name) + ", no padding", std::move(even), found);
    return true;
  }

  void find_cheapest() {
    std::optional<SpaceSolution> own = search_unlimited(kCheapest);
    if (!own && find_within()) own = search_within(kCheapest);
    if (own && keep(kCheapest, std::move(*own), found_)) {
      if (within_.empty() && !plans_.rows.empty()) keeps_limits(found_.front().choice.solution.choice);
    } else {
      for (const MemoryRows& rows : plans_.rows)
        tell_least(rows, plans_.problem ? rows.least(plans_.allowed(), few_cells()) : *least_, result_);
    }
  }

  // Finds a plan that the limits of memory allow, as a start for searches, if it can. Returns false if there
  // is none.
  bool find_within() {
    const std::int64_t limit = *options_.memory;
    if (!plans_.problem) {
      const SplitCosts costs = split_costs(costs_, {}, work_);
      least_ = least_in_turn(graph_, space_, costs, limit, solved_split(space_, costs).solution.choice,
                             few_cells());
      if (least_->reached <= limit) keeps_limits(least_->choice);
      begin_cheaply([&](const Assignment& choice) { return cost_in_turn(costs, choice); });
      return least_->bytes <= limit;
    }
    const Problem problem = plans_.allowed();
    for (const MemoryRows& own : plans_.rows) {
      const LeastMemory least = own.least(problem, few_cells(), limit);
      if (least.bytes > limit) return false;
      if (within_.empty() && !least.choice.empty() && bytes_counted(plans_.rows, least.choice) <= limit)
        keeps_limits(least.choice);
    }
    begin_cheaply([&](const Assignment& choice) { return price(problem, choice); });
    return true;
  }
  // The plan with the least memory often converts back and forth and is far from cheap, so cheaper plans are
  // tried as a start.
  void begin_cheaply(const std::function<Cost(const Assignment&)>& cost_of) {
    if (within_.empty() || points_.several()) return;
    result_.priced = options_.priced.empty() ? choices_at_prices() : options_.priced;
    Assignment known = within_;
    known.resize(plans_.problem ? space_.variables().size() : known.size());
    Cost least = cost_of(known);
    for (const Assignment& choice : result_.priced) {
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
    const SplitCosts costs = split_costs(costs_, {}, work_);
    std::vector<Assignment> all;
    for (const Assignment& choice : MemoryRows(graph_, alike, costs.size).at_prices(alike.problem(costs)))
      all.push_back(space_.choice_of(alike, choice));
    return all;
  }
  void keeps_limits(const Assignment& choice) {
    within_ = plans_.problem ? plans_.completed(choice) : choice;
  }
  static SolveOptions few_cells() {
    SolveOptions effort;
    effort.budget >>= 4;
    return effort;
  }

  bool seeks_others() const { return !found_.empty() && ranks_ > 1 && !options_.cheapest_only; }

  void find_hidden(std::vector<Found>& found) const {
    const SplitChoice& cheapest = found_.front().choice;
    if (!gains_by_hiding(cheapest)) return;
    SpaceSolution hidden = search(kHidden);
    // Costs with half hidden communication lie between those of both searches, up to rounding of a
    // picosecond. If these took the same sequence of choices, that search would take it, too.
    const bool pads = plans_.problem && space_.pads(cheapest.solution.choice);
    const bool same = !pads && !cheapest.way.empty() && hidden.way == cheapest.way;
    if (!same && !keep(kHalfHidden, search(kHalfHidden), found)) return;
    keep(kHidden, std::move(hidden), found);
  }

  // Whether another plan could take less if less of the communication counted. Any plan takes at least the
  // least cost of nodes without their communication, so the cheapest plan's excess over that is the most to
  // be gained. A thousandth of its time does not matter.
  bool gains_by_hiding(const SplitChoice& cheapest) const {
    if (points_.several() || whole_ > 0) return true;
    const SplitCosts free = split_costs(costs_, {0, 0}, work_);
    return cheapest.price(graph_, free) - space_.least_of_nodes(free) >
           cheapest.price(graph_, split_costs(costs_, {}, work_)) / 1000;
  }

  // Adds the plan of a solution, unless it is known.
  void describe(std::string name, SpaceSolution own, std::vector<Found>& found) const {
    const auto is_own = [&](const Found& known) { return known.plan.choice == own.solution.choice; };
    if (std::ranges::any_of(found, is_own) || (!found_.empty() && is_own(found_.front()))) return;
    const SplitCosts costs = split_costs(costs_, {}, work_);  // keeps what it is asked: one per thread
    SplitChoice choice = space_.described(costs, std::move(own));
    FoundPlan plan;
    plan.name = std::move(name);
    plan.text = to_string(choice.plan);
    plan.choice = choice.solution.choice;
    if (points_.several()) {
      plan.at_points = points_.prices(space_, plan.choice);
      plan.predicted = points_.sum(plan.at_points);
    } else {
      plan.predicted.ps = choice.price(graph_, costs);
    }
    plan.joint = choice.joint;
    plan.counted_bytes = bytes_counted(plans_.rows, plan.choice);
    split::describe(graph_, choice, costs, plan);
    found.push_back({std::move(choice), std::move(plan)});
  }

  // Adds a plan to the result, unless one with the same text is there.
  void add(Found found) {
    FoundPlan& plan = found.plan;
    if (std::ranges::find(result_.plans, plan.text, &FoundPlan::text) != result_.plans.end()) return;
    plan.floor = bounds_->of_plan(plan.choice).order;
    if (result_.plans.empty() && !options_.obey) {
      plan.bound.ps = found.choice.solution.bound;
      plan.proved = found.choice.solution.proved();
    }
    result_.plans.push_back(std::move(plan));
  }

  // Finds changes of the machine that change the cheapest plan.
  void explain() {
    SolveOptions effort;
    if (!plans_.rows.empty()) {
      // It is enough to know whether there is a cheaper plan.
      effort.known = plans_.completed(result_.plans.front().choice);
      effort.any_cheaper = true;
      effort.budget >>= 3;
    }
    result_.flips = find_flips(
        [&](const SplitCostOptions& own) {
          return space_.described(split_costs(costs_, own, work_), solved(own, plans_.restrict, effort));
        },
        whole_, result_.plans.front().text);
  }

  const Graph& graph_;
  const SearchOptions& options_;
  int ranks_;
  std::shared_ptr<const analysis::CostModel> costs_;
  std::shared_ptr<const KnownWork> work_;
  PlanSpace plans_;
  const SplitSpace& space_;
  const PricePoints& points_;
  Cost whole_;  // SplitCostOptions
  std::optional<StepBounds> bounds_;
  std::optional<LeastMemory> least_;  // of a large space, under limits
  Assignment within_;                 // keeps the limits of memory; empty if there are none, or none is known
  std::vector<Found> found_;
  FoundPlans result_;
};

// Plans of one program.
std::vector<FoundPlans> find_plans(const PlannedProgram& program, const std::vector<Mesh>& meshes) {
  const Graph& graph = *program.graph;
  const SearchOptions& options = program.options;
  const std::shared_ptr<const KnownWork> work = known_work(graph, *program.costs);
  const ir::SharedPool shared(sizes_of_all(graph));
  std::vector<FoundPlans> all(meshes.size());
  std::vector<std::size_t> left(meshes.size());
  std::iota(left.begin(), left.end(), 0);
  SearchOptions own = options;
  const auto search = [&](std::size_t k) {
    all[k] = MeshSearch(graph, meshes[k], program.costs, own, work).run();
  };
  if (options.bounds && !options.known.loads && meshes.size() > 1) {
    const auto most = std::ranges::max_element(left, {}, [&](std::size_t k) { return meshes[k].ranks(); });
    const FoundPlans& first = all[*most];
    search(*most);
    left.erase(most);
    if (!first.plans.empty()) own.known.add(first.loads, first.order);
  }
  // Longer searches begin first.
  std::ranges::stable_sort(left, std::greater(), [&](std::size_t k) { return meshes[k].size(); });
  ir::parallel_for(left.size(), most_searches(), [&](std::size_t k) { search(left[k]); });
  return all;
}

}  // namespace

std::vector<FoundPlans> find_plans(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                                   const std::vector<Mesh>& meshes) {
  for (const Mesh& mesh : meshes) {
    for (const PlannedProgram& program : programs)
      if (program.options.obey && !program.options.annotated && mesh.size() == 1 && mesh.ranks() > 1)
        require_divisible(*program.graph, mesh.ranks());
  }
  if (programs.size() == 1) return find_plans(programs[0], meshes);
  std::vector<FoundPlans> all;
  for (const Mesh& mesh : meshes) all.push_back(find_plans_together(programs, shared, mesh));
  return all;
}

std::vector<FoundPlans> find_plans(const Graph& graph, const std::vector<Mesh>& meshes,
                                   const std::shared_ptr<const analysis::CostModel>& costs,
                                   const SearchOptions& options) {
  const PlannedProgram program{&graph, costs, options};
  return find_plans({&program, 1}, {}, meshes);
}

int next_ranks_within(const Graph& graph, int above, std::int64_t memory,
                      const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options) {
  const PricePoints points(costs, options);
  const Obstacles obstacles(graph);
  SolveOptions effort;
  effort.budget >>= 6;  // each is one of many
  for (int ranks = above + 1; ranks <= kMostRanksWithin; ++ranks) {
    if (options.obey && obstacles.of(ranks)) continue;
    const SplitSpace space(graph, ranks, options.caches ? Caches::in_parts : Caches::whole);
    const Problem problem = space.problem(split_costs(costs));
    const auto possible = [&](const PricePoint& point) {
      return MemoryRows(graph, space, split_costs(point.costs).size).least(problem, effort, memory).bytes <=
             memory;
    };
    if (std::ranges::all_of(points.all(), possible)) return ranks;
  }
  return 0;
}

bool FoundPlan::splits_nothing() const {
  return std::all_of(layers.begin(), layers.end(), [](const PlanLayer& layer) { return layer.split == 0; });
}

Mesh mesh_of_plan(const std::string& text, const std::string& file) {
  return parse_mesh_plan(text, file).mesh;
}

}  // namespace braid::split
