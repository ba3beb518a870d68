#include "solver/search.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

#include "ir/error.h"
#include "solver/dual.h"

namespace braid::solver {

namespace {

// A restriction of the root: the variable has the choice with this label, or any other one.
struct Decision {
  VariableId variable;
  ChoiceId label;
  bool equal = true;
  std::shared_ptr<const Decision> before;
};

struct Open {
  Cost bound = 0;
  std::int64_t number = 0;  // nodes of equal bound: the newest first, which is the deepest
  std::shared_ptr<const Decision> path;
};

struct Later {
  bool operator()(const Open& a, const Open& b) const {
    return a.bound != b.bound ? a.bound > b.bound : a.number < b.number;
  }
};

class Search {
 public:
  Search(const Problem& problem, Network root, Cost scale, const SolveOptions& options, Solution& solution)
      : problem_(problem),
        options_(options),
        solution_(solution),
        scale_(scale),
        known_(solution.cost),
        root_(std::move(root)),
        prices_(root_.limits.ids(), 0) {}

  void run() {
    cells_ = root_.cells;
    tighten_root(kRootSweeps);
    if (!root_.infeasible) {
      descend(root_, prices_);
      if (enough()) return finish();
      if (cells_ < options_.budget) tighten_root(kRootSweeps);
    }
    if (!root_.infeasible) {
      if (cells_ < options_.budget) dive(root_, prices_, nullptr);
      if (enough()) return finish();
      tighten_root(kRootSweeps);
      open_ = {};  // paths name variables of the root as it was before
      if (!root_.infeasible) open_.push({root_.constant, number_++, nullptr});
      while (!open_.empty() && !enough() && cells_ < options_.budget) {
        const Open next = open_.top();
        if (next.bound >= below()) break;
        open_.pop();
        Network network = root_;
        network.cells = 0;
        IdVector<RowId, std::int64_t> prices = prices_;
        if (apply(network, next.path.get())) {
          dive(std::move(network), std::move(prices), next.path, next.bound);
        } else {
          cells_ += network.cells;
        }
      }
    }
    finish();
  }

 private:
  static constexpr int kRootSweeps = 400;
  static constexpr int kNodeSweeps = 12;
  static constexpr int kDescentSweeps = 6;

  bool enough() const {
    return solution_.feasible() && ((options_.enough > 0 && solution_.cost <= options_.enough) ||
                                    (options_.any_cheaper && solution_.cost < known_));
  }

  // Scaled costs from here on are no improvement. Costs are multiples of the scale.
  Cost below() const { return solution_.feasible() ? solution_.cost * scale_ - scale_ + 1 : kInside; }
  Cost reach(const Network& network) const {
    return solution_.feasible() ? below() : network.constant + network.constant / 20 + scale_;
  }

  // Finds a first solution. Fixes many variables at a time, beginning with those whose best choice is ahead
  // of the second by the most. If that leaves no solution, fixes fewer at a time.
  void descend(Network network, IdVector<RowId, std::int64_t> prices) {
    int failures = 0;
    std::size_t batch = 0;
    constexpr int kMostFailures = 60;
    std::int64_t counted = network.cells;
    while (failures < kMostFailures) {
      refresh(network, prices);
      cells_ += network.cells - std::exchange(counted, network.cells);
      if (network.infeasible || finish_leaf(network)) return;
      AscentOptions ascent;
      ascent.sweeps = kDescentSweeps;
      ascent.reach = reach(network);
      ascend(network, prices, ascent);
      cells_ += network.cells - std::exchange(counted, network.cells);
      if (network.constant >= below()) return;
      std::vector<std::pair<Cost, VariableId>> order;
      for (const VariableId v : network.nodes.ids()) {
        if (!network.nodes[v].alive || network.size(v) < 2) continue;
        std::vector<Cost> bounds = network.bounds_of(v);
        std::nth_element(bounds.begin(), bounds.begin() + 1, bounds.end());
        order.push_back({bounds[0] - bounds[1], v});
      }
      if (order.empty()) return;
      std::sort(order.begin(), order.end());
      batch = std::min(batch == 0 ? order.size() : 2 * batch, order.size() / 8 + 1);
      const Network before = network;
      for (;;) {
        std::size_t taken = 0;
        for (const auto& [regret, v] : order) {
          if (taken == batch || network.infeasible) break;
          if (!network.nodes[v].alive || network.size(v) < 2) continue;
          network.keep_choices(v, {best_of(network.bounds_of(v))});
          if (!network.infeasible) network.lift(v);
          network.propagate(below());
          ++taken;
        }
        if (!network.infeasible) network.reduce(below(), false);
        cells_ += network.cells - std::exchange(counted, network.cells);
        if (!network.infeasible) break;
        if (++failures == kMostFailures || cells_ > options_.budget) return;
        network = before;
        counted = network.cells;
        if (batch > 1) {
          batch = batch / 4 + 1;
          if (batch == 2) batch = 1;
          continue;
        }
        // The first one's best choice leads nowhere.
        const VariableId v = order.front().second;
        const std::size_t best = best_of(network.bounds_of(v));
        std::vector<std::size_t> keep;
        for (std::size_t c = 0; c < network.size(v); ++c) {
          if (c != best) keep.push_back(c);
        }
        network.keep_choices(v, keep);
        network.lift(v);
        break;
      }
    }
  }

  // Raises the root's bound by many sweeps, then removes the choices that it excludes.
  void tighten_root(int sweeps) {
    const std::int64_t before = root_.cells;
    for (int round = 0; round < 4 && !root_.infeasible; ++round) {
      const std::int64_t left = root_.cells;
      AscentOptions ascent;
      ascent.sweeps = sweeps;
      ascent.cells = std::max<std::int64_t>((options_.budget - cells_) / 8, 1);
      ascent.target = below();
      ascent.reach = solution_.feasible() ? below() : kInside;
      ascent.patience = 40;
      ascend(root_, prices_, ascent);
      const std::size_t choices = count_choices(root_);
      refresh(root_, prices_);
      if (root_.infeasible || count_choices(root_) * 10 > choices * 9) break;
      if (cells_ + root_.cells - before + (root_.cells - left) > options_.budget) break;
    }
    cells_ += root_.cells - before;
  }

  static std::size_t best_of(const std::vector<Cost>& bounds) {
    return std::ranges::min_element(bounds) - bounds.begin();
  }

  static std::size_t count_choices(const Network& network) {
    std::size_t choices = 0;
    for (const Node& node : network.nodes) choices += node.costs.size();
    return choices;
  }

  void refresh(Network& network, IdVector<RowId, std::int64_t>& prices) {
    network.touch_all();
    network.reduce(below(), false);
    if (!network.infeasible && network.relax_rows(prices)) {
      network.normalise();
      network.reduce(below(), false);
    }
  }

  bool apply(Network& network, const Decision* decision) {
    std::vector<const Decision*> path;
    for (; decision; decision = decision->before.get()) path.push_back(decision);
    for (std::size_t i = path.size(); i-- > 0;) {
      const Decision& d = *path[i];
      if (!network.nodes[d.variable].alive) continue;  // checked at the leaf: what is left must agree
      restrict(network, d);
      if (network.infeasible) return false;
    }
    return true;
  }

  static void restrict(Network& network, const Decision& decision) {
    const Node& node = network.nodes[decision.variable];
    std::vector<std::size_t> keep;
    for (std::size_t c = 0; c < node.labels.size(); ++c) {
      if ((node.labels[c] == decision.label) == decision.equal) keep.push_back(c);
    }
    network.keep_choices(decision.variable, keep);
    if (!network.infeasible) network.lift(decision.variable);
  }

  // Follows the most promising branch down to a solution or to a bound that excludes it, and leaves the other
  // branches open.
  void dive(Network network, IdVector<RowId, std::int64_t> prices, std::shared_ptr<const Decision> path,
            Cost inherited = 0) {
    std::int64_t counted = network.cells;
    const auto count = [&] {
      cells_ += network.cells - counted;
      counted = network.cells;
    };
    for (;;) {
      ++solution_.branches;
      refresh(network, prices);
      count();
      if (network.infeasible) return;
      if (finish_leaf(network)) return;
      AscentOptions ascent;
      ascent.sweeps = kNodeSweeps;
      ascent.target = below();
      ascent.reach = reach(network);
      ascend(network, prices, ascent);
      if (network.constant >= below()) {
        count();
        return;
      }
      refresh(network, prices);
      count();
      if (network.infeasible) return;
      if (finish_leaf(network)) return;
      if (cells_ >= options_.budget) {
        open_.push({std::max(network.constant, inherited), number_++, path});
        return;
      }
      const auto [variable, choice, second] = branching(network);
      const ChoiceId label = network.nodes[variable].labels[choice];
      const Cost other_bound = std::max({network.constant, inherited, second});
      if (other_bound < below()) {
        open_.push(
            {other_bound, number_++, std::make_shared<Decision>(Decision{variable, label, false, path})});
      }
      path = std::make_shared<Decision>(Decision{variable, label, true, path});
      restrict(network, *path);
    }
  }

  struct Branch {
    VariableId variable;
    std::size_t choice = 0;  // its place
    Cost second = 0;         // bound of the other choices
  };

  Branch branching(const Network& network) const {
    Branch best;
    Cost best_regret = -1;
    std::size_t best_size = 0;
    for (const VariableId v : network.nodes.ids()) {
      if (!network.nodes[v].alive || network.size(v) < 2) continue;
      const std::vector<Cost> bounds = network.bounds_of(v);
      const std::size_t first = best_of(bounds);
      Cost second = kInside;
      for (std::size_t c = 0; c < bounds.size(); ++c) {
        if (c != first) second = std::min(second, bounds[c]);
      }
      const Cost regret = second - bounds[first];
      if (regret > best_regret || (regret == best_regret && bounds.size() > best_size)) {
        best = {v, first, second};
        best_regret = regret;
        best_size = bounds.size();
      }
    }
    return best;
  }

  // Whether the rest could be solved exactly; a solution is kept if it is better.
  bool finish_leaf(Network& network) {
    if (network.constrained()) return false;
    const bool empty =
        std::none_of(network.nodes.begin(), network.nodes.end(), [](const Node& node) { return node.alive; });
    if (!empty) {
      if (!network.can_eliminate(options_.table)) return false;
      const std::int64_t before = network.cells;
      network.eliminate(options_.table);
      cells_ += network.cells - before;
      network.cells = before;
      if (network.infeasible || network.constant >= below()) return true;
    }
    Assignment choice(problem_.variables.ids());
    network.restore(choice);
    const Cost cost = price(problem_, choice);
    ir::internal_check(cost != kForbidden, "a leaf of the search breaks a limit");
    if (!solution_.feasible() || cost < solution_.cost) {
      solution_.status = Status::kFeasible;
      solution_.choice = std::move(choice);
      solution_.cost = cost;
    }
    return true;
  }

  void finish() {
    solution_.cells = cells_;
    if (enough()) {
      solution_.bound = std::min(solution_.bound, solution_.cost);
      return;
    }
    // The bound rounded up to a whole cost.
    Cost bound = below();
    if (!open_.empty()) bound = std::min(bound, open_.top().bound);
    const bool proved = open_.empty() || open_.top().bound >= below();
    if (proved) {
      solution_.status = solution_.feasible() ? Status::kOptimal : Status::kInfeasible;
      solution_.bound = solution_.feasible() ? solution_.cost : kForbidden;
      return;
    }
    solution_.bound = std::max(solution_.bound, bound >= 0 ? (bound + scale_ - 1) / scale_ : 0);
  }

  const Problem& problem_;
  const SolveOptions& options_;
  Solution& solution_;
  Cost scale_;
  Cost known_;  // of the choice to begin with; kForbidden if there is none
  Network root_;
  IdVector<RowId, std::int64_t> prices_;
  std::priority_queue<Open, std::vector<Open>, Later> open_;
  std::int64_t number_ = 0;
  std::int64_t cells_ = 0;
};

}  // namespace

void branch_and_bound(const Problem& problem, Network root, Cost scale, const SolveOptions& options,
                      Solution& solution) {
  solution.method = "branch and bound";
  Search(problem, std::move(root), scale, options, solution).run();
}

}  // namespace braid::solver
