// A problem while it is being solved: variables disappear from it, and choices of those that remain. What was removed can be
// computed from what is left (restore).
//
// Costs are scaled by a power of two, so that halves and thirds of them can be moved between tables without rounding: bounds
// are exact. Prices of memory (multipliers) may be part of the costs; then a choice within all limits has a cost here that is
// at most its true cost, so a bound of one is a bound of the other. (Lagrangian relaxation; Geoffrion 1974.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "solver/minimise.h"
#include "solver/problem.h"

namespace braid::solver {

// Forbidden entries inside of a network: sums of one with allowed costs and messages stay above kForbiddenFrom.
inline constexpr Cost kInside = Cost{1} << 62;
inline constexpr Cost kForbiddenFrom = Cost{1} << 61;

// The choices of a variable that are left, by their indices in the problem, ascending. Copies share them.
class Labels {
 public:
  Labels() = default;
  explicit Labels(std::vector<int> all) : all_(std::make_shared<const std::vector<int>>(std::move(all))) {}

  std::size_t size() const { return all_ ? all_->size() : 0; }
  int operator[](std::size_t place) const { return (*all_)[place]; }
  const std::vector<int>& all() const { return *all_; }
  // nullopt: it is not left.
  std::optional<std::size_t> place_of(int label) const {
    const auto found = std::ranges::lower_bound(*all_, label);
    if (found == all_->end() || *found != label) return std::nullopt;
    return static_cast<std::size_t>(found - all_->begin());
  }

 private:
  std::shared_ptr<const std::vector<int>> all_;
};

struct Node {
  std::vector<Cost> costs;  // per choice that is left
  Labels labels;            // of these
  std::vector<int> pairs;   // indices of pairs, alive
  std::vector<int> uses;    // indices of uses, alive
  bool alive = true;
  // Others than those in the network depend on it: it stays, with all choices that have a partner.
  bool fixed = false;
};

// Costs of a pair: its own, or those of a table that others have, too, as long as they are not edited. Most tables that a reduction makes
// are nobody else's, and short-lived.
class PairCosts {
 public:
  PairCosts() = default;
  PairCosts(std::vector<Cost> own) : own_(std::move(own)) {}
  PairCosts(CostTable shared) : shared_(std::move(shared)) {}

  const std::vector<Cost>& costs() const { return shared_.empty() ? own_ : shared_.costs(); }
  std::size_t size() const { return costs().size(); }
  const Cost* data() const { return costs().data(); }
  Cost operator[](std::size_t index) const { return data()[index]; }
  std::vector<Cost>& edit() {
    if (!shared_.empty()) own_ = std::exchange(shared_, CostTable()).costs();
    return own_;
  }
  // From now on others may have them.
  const CostTable& share() {
    if (!own_.empty()) shared_ = CostTable(std::exchange(own_, {}));
    return shared_;
  }
  friend bool operator==(const PairCosts& a, const CostTable& b) {
    return &a.costs() == &b.costs() || a.costs() == b.costs();
  }

 private:
  CostTable shared_;
  std::vector<Cost> own_;  // if nothing is shared
};

struct Pair {
  int from = -1, to = -1;
  PairCosts costs;  // row-major
  bool alive = true;

  int other(int variable) const { return variable == from ? to : from; }
};

// Bytes of the choices of a variable above those of its smallest choice; what all choices need is taken off the limits.
struct Use {
  int variable = -1;
  std::vector<std::int64_t> bytes;
  std::shared_ptr<const std::vector<RowRange>> rows;
  std::uint64_t hash = 0;  // of the rows
  bool alive = true;

  void set_rows(std::shared_ptr<const std::vector<RowRange>> now);
};

// Costs of several variables together, row-major over their choices that are left.
struct Factor {
  std::vector<int> variables;
  std::shared_ptr<const std::vector<Cost>> costs;
};

// Where the choices of these labels are in a table over all choices of several variables, row-major.
std::vector<std::size_t> cells_of(const std::vector<Labels>& labels, const std::vector<std::size_t>& sizes);

// How to compute the choice of a variable that was removed from those of others, which were removed later or not at all.
struct Step {
  int variable = -1;
  Labels labels;
  // The variables that it depends on, with the choices that they had.
  std::vector<std::pair<int, Labels>> on;
  // The table over these, row-major: choices of `variable`, -1: none. Null: the best one of the sum.
  std::shared_ptr<const std::vector<int>> choice;
  std::shared_ptr<const TableSum> sum;  // over `on` and the variable
  mutable std::shared_ptr<const Step> before;

  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  // Of all before it that nobody else has, one after another: there are as many as variables, too many for a thread's stack.
  ~Step() {
    for (auto step = std::move(before); step && step.use_count() == 1;) step = std::move(step->before);
  }
};

class Network {
 public:
  // `scale` multiplies all costs.
  Network(const Problem& problem, Cost scale);
  // Before anything is reduced, here and there: what both compute is computed once.
  void share_results(const Network& other) { kept_ = other.kept_; }
  // Before anything is reduced.
  void fix(int variable) { nodes[variable].fixed = true; }
  void release(int variable) { nodes[variable].fixed = false; }

  Cost constant = 0;
  std::vector<Node> nodes;  // as the problem's variables
  std::vector<Pair> pairs;
  std::vector<Use> uses;
  std::vector<std::int64_t> limits;  // what is left of each row
  bool infeasible = false;
  std::int64_t cells = 0;

  // The table cell of a pair from the view of one of its variables.
  Cost cost(const Pair& pair, int variable, int mine, int others) const {
    return variable == pair.from ? pair.costs[static_cast<std::size_t>(mine) * size(pair.to) + others]
                                 : pair.costs[static_cast<std::size_t>(others) * size(variable) + mine];
  }
  int size(int variable) const { return static_cast<int>(nodes[variable].costs.size()); }
  int find_pair(int a, int b) const;  // or -1
  bool constrained() const;           // whether a use is left

  // Removes all choices of the variable but those in `keep` (ascending).
  void keep_choices(int variable, const std::vector<int>& keep);
  // Removes what cannot be part of a choice that keeps the limits and costs less than `below` (scaled; kInside: any), then
  // variables of which the rest is a function: those with one choice, those that one neighbour determines, those with at most
  // two neighbours and no memory. With `dominance`, choices that another one can always replace; only before prices of memory
  // are part of the costs.
  void reduce(Cost below, bool dominance);
  // As reduce, but looks only at neighbours of what changed, and not at memory.
  void propagate(Cost below);
  // Lower bounds (scaled) of all that contain each choice of the variable. Requires normalised tables, as reduce leaves them.
  std::vector<Cost> bounds_of(int variable) const;
  // Smallest entries of all tables into the constant, which is a lower bound afterwards.
  void normalise();
  // As if all costs had been scaled from the beginning. Only before there are prices.
  void multiply_costs(Cost factor);
  // Adds prices per byte (2^-32 scaled picoseconds) of the rows to all costs; the sum over time must not be negative.
  void add_prices(const std::vector<std::int64_t>& prices);

  // Leaves out rows that even the largest choices keep, with their prices, which become 0 in `prices`. Whether there was one.
  // Tables may contain negative costs afterwards (normalise).
  bool relax_rows(std::vector<std::int64_t>& prices);
  void touch_all();         // so that reduce looks at all variables
  void lift(int variable);  // the smallest of the variable's own costs into the constant

  // Eliminates all that is left and not fixed with tables of at most `table` cells. False, and nothing is changed, if that is not
  // possible or memory is constrained. `more`: what choices cost beside. What is fixed keeps its costs and pairs; what the others
  // leave over several of them is put into `left`.
  bool eliminate(std::int64_t table, const std::vector<Factor>& more = {},
                 std::vector<Factor>* left = nullptr);
  bool can_eliminate(std::int64_t table) const;

  // A choice for all variables; `choice` holds the labels of those alive, -1 for the others.
  void restore(std::vector<int>& choice) const;
  void record(int variable, const std::vector<int>& on, std::shared_ptr<const std::vector<int>> choice,
              std::shared_ptr<const TableSum> sum = nullptr);

 private:
  // What removing a variable with at most two pairs leaves, with the tables that it was computed from; copies of a network share it.
  struct Removed {
    std::vector<Cost> own;
    CostTable pairs[2];
    bool from[2] = {false, false};  // whether these begin at the variable
    PairCosts costs;                // over the neighbours, without the smallest entry
    Cost least = 0;
    std::shared_ptr<const std::vector<int>> choice;
  };
  std::shared_ptr<std::unordered_multimap<std::uint64_t, Removed>> kept_ =
      std::make_shared<std::unordered_multimap<std::uint64_t, Removed>>();
  std::shared_ptr<const Step> steps_;
  // Pairs that are not alive, of which variables with many neighbours would leave millions.
  std::vector<int> free_;
  std::vector<std::int64_t>
      taken_;  // per row, as differences from row to row: what limits lose at settle_limits
  bool taken_any_ = false;
  std::vector<int> queue_;
  std::vector<char> queued_;

  void touch(int variable);
  void touch_around(int variable);
  int add_pair(int a, int b, PairCosts costs_from_a);
  void drop_pair(int pair);
  void drop_node(int variable);
  void normalise_use(int use);
  void settle_limits();
  // Uses of one variable in the same rows become one. The first `distinct` of them are in different rows.
  void combine_uses(int variable, std::size_t distinct = 0);
  bool filter_node(int variable, Cost below);
  bool filter_memory();
  bool simplify_pairs(int variable);
  bool remove_single(int variable);
  bool merge_determined(int variable);
  bool remove_small_degree(int variable);
  bool dominate(int variable);
  std::vector<char> to_compare_;  // variables at which dominance has not been looked for since they changed
};

}  // namespace braid::solver
