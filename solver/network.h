// A problem while it is being solved. Variables disappear from it, and so do choices of the remaining
// variables. The choices of removed variables can be computed from what is left (restore).
//
// Costs are multiplied by a scale, so that fractions of them can be moved between tables; all moves are
// exact, and so are bounds. Prices of memory (multipliers) may be part of the costs. Then a choice within all
// limits costs here at most its true cost, so a bound here bounds the true cost. (Lagrangian relaxation;
// Geoffrion 1974.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "solver/labels.h"
#include "solver/minimise.h"
#include "solver/pair_costs.h"
#include "solver/problem.h"

namespace braid::solver {

// Forbidden entries inside of a network. Sums with allowed costs and messages stay above kForbiddenFrom.
inline constexpr Cost kInside = Cost{1} << 62;
inline constexpr Cost kForbiddenFrom = Cost{1} << 61;
constexpr bool forbidden(Cost cost) { return cost >= kForbiddenFrom; }
// Returns a sum; a forbidden addend makes it forbidden.
constexpr Cost plus(Cost a, Cost b) { return forbidden(a) || forbidden(b) ? kInside : a + b; }

struct Node {
  std::vector<Cost> costs;    // per choice that is left
  Labels labels;              // of these choices
  std::vector<PairId> pairs;  // alive
  std::vector<UseId> uses;    // alive
  bool alive = true;
  // Whether something outside of the network depends on it. Then it stays, with all choices that have a
  // partner.
  bool fixed = false;
};

struct Pair {
  VariableId from, to;
  PairCosts costs;  // row-major
  bool alive = true;

  VariableId other(VariableId variable) const { return variable == from ? to : from; }
};

// Bytes per choice of a variable, above those of its smallest choice, which are taken off the limits.
struct Use {
  VariableId variable;
  std::vector<std::int64_t> bytes;
  std::shared_ptr<const std::vector<RowRange>> rows;
  std::uint64_t hash = 0;  // of the rows
  bool alive = true;

  void set_rows(std::shared_ptr<const std::vector<RowRange>> now);
};

// Costs of several variables together, row-major over their choices that are left.
struct Factor {
  std::vector<VariableId> variables;
  std::shared_ptr<const std::vector<Cost>> costs;
};

// Returns the cells that the choices with these labels have in a row-major table over all choices of several
// variables.
std::vector<std::size_t> cells_of(const std::vector<Labels>& labels, const std::vector<std::size_t>& sizes);

// Computes the choice of a removed variable from the choices of variables that were removed later or not at
// all.
struct Step {
  VariableId variable;
  Labels labels;
  // The variables that it depends on, with the choices that they had.
  std::vector<std::pair<VariableId, Labels>> on;
  // A row-major table over `on`: the choice of `variable`; -1: none. Null: the best choice by `sum`.
  std::shared_ptr<const std::vector<int>> choice;
  std::shared_ptr<const TableSum> sum;  // over `on` and the variable
  mutable std::shared_ptr<const Step> before;

  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  // Releases the steps before it that only it owns in a loop. There are as many as variables, too many for
  // recursion on a thread's stack.
  ~Step() {
    for (auto step = std::move(before); step && step.use_count() == 1;) step = std::move(step->before);
  }
};

class Network {
 public:
  // `scale` multiplies all costs.
  Network(const Problem& problem, Cost scale);
  // Call before this is reduced: a result that either network has computed is not computed again.
  void share_results(const Network& other) { kept_ = other.kept_; }
  // Call before this is reduced.
  void fix(VariableId variable) { nodes[variable].fixed = true; }
  void release(VariableId variable) { nodes[variable].fixed = false; }

  Cost constant = 0;
  IdVector<VariableId, Node> nodes;  // as the problem's variables
  IdVector<PairId, Pair> pairs;
  IdVector<UseId, Use> uses;
  IdVector<RowId, std::int64_t> limits;  // what is left of each row
  bool infeasible = false;
  std::int64_t cells = 0;

  // Returns the table cell of a pair, seen from one of its variables.
  Cost cost(const Pair& pair, VariableId variable, std::size_t mine, std::size_t others) const {
    return variable == pair.from ? pair.costs[mine * size(pair.to) + others]
                                 : pair.costs[others * size(variable) + mine];
  }
  // The number of choices that are left.
  std::size_t size(VariableId variable) const { return nodes[variable].costs.size(); }
  PairId find_pair(VariableId a, VariableId b) const;  // invalid: there is none
  bool constrained() const;                            // whether a use is left

  // Removes all choices of the variable but those at the places `keep` (ascending).
  void keep_choices(VariableId variable, const std::vector<std::size_t>& keep);
  // Removes choices that cannot be part of a choice of all variables that keeps the limits and costs less
  // than `below` (scaled; kInside: any). Then removes variables that are a function of the rest: those with
  // one choice, those that one neighbour determines, those with at most two neighbours and no memory. With
  // `dominance`, also removes choices that another one can always replace; only allowed before prices of
  // memory are part of the costs.
  void reduce(Cost below, bool dominance);
  // The same as reduce, but visits only neighbours of changed variables, and ignores memory.
  void propagate(Cost below);
  // Returns for each choice of the variable a lower bound (scaled) on all choices that contain it. Requires
  // normalised tables, as reduce leaves them.
  std::vector<Cost> bounds_of(VariableId variable) const;
  // Moves the smallest entries of all tables into the constant, which is a lower bound afterwards.
  void normalise();
  // Has the same effect as a larger scale from the beginning. Only before there are prices.
  void multiply_costs(Cost factor);
  // Adds prices per byte (2^-32 scaled picoseconds) of the rows to all costs. The sum of all prices added to
  // a row must not be negative.
  void add_prices(const IdVector<RowId, std::int64_t>& prices);

  // Leaves out rows that even the largest choices keep, and takes off their prices, which become 0 in
  // `prices`. Returns whether there was one. Tables may contain negative costs afterwards (normalise).
  bool relax_rows(IdVector<RowId, std::int64_t>& prices);
  void touch_all();                // makes reduce visit all variables
  void lift(VariableId variable);  // moves the smallest of the variable's own costs into the constant

  // Eliminates all variables that are left and not fixed, with tables of at most `table` cells. Returns
  // false, without a change, if that is not possible or memory is constrained. `more` are additional costs of
  // choices. Fixed variables keep their costs and pairs. Tables over several fixed variables that the
  // elimination creates are put into `left`.
  bool eliminate(std::int64_t table, const std::vector<Factor>& more = {},
                 std::vector<Factor>* left = nullptr);
  bool can_eliminate(std::int64_t table) const;

  // Completes `choice`, which holds the labels of the variables that are alive.
  void restore(Assignment& choice) const;
  void record(VariableId variable, const std::vector<VariableId>& on,
              std::shared_ptr<const std::vector<int>> choice, std::shared_ptr<const TableSum> sum = nullptr);

 private:
  // The result of removing a variable with at most two pairs, with the tables that it was computed from.
  // Copies of a network share results.
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
  // Dead pairs, for reuse: removing variables with many neighbours would leave millions.
  std::vector<PairId> free_;
  RowSums taken_;  // the amounts that settle_limits takes off the limits
  bool taken_any_ = false;
  std::vector<VariableId> queue_;
  IdVector<VariableId, char> queued_;

  void add_pairs(const IdVector<EdgeId, Edge>& edges, Cost scale);
  void add_uses(const Problem& problem);
  void touch(VariableId variable);
  void touch_around(VariableId variable);
  PairId add_pair(VariableId a, VariableId b, PairCosts costs_from_a);
  void drop_pair(PairId pair);
  void drop_node(VariableId variable);
  void normalise_use(UseId use);
  void settle_limits();
  // Combines the uses of one variable that are in the same rows. The first `distinct` of them are in
  // different rows.
  void combine_uses(VariableId variable, std::size_t distinct = 0);
  // Bytes per choice of a variable in rows in which it has the same uses.
  struct MemorySegment {
    VariableId variable;
    RowRange rows;
    std::vector<std::int64_t> bytes;
  };
  std::vector<MemorySegment> memory_segments(RowSums& smallest);
  bool filter_node(VariableId variable, Cost below);
  bool filter_memory();
  bool simplify_pairs(VariableId variable);
  bool remove_single(VariableId variable);
  bool merge_determined(VariableId variable);
  using Around = std::array<Pair*, 2>;  // the pairs of a variable; null: absent
  bool remove_small_degree(VariableId variable);
  std::uint64_t hash_of(VariableId variable, const Around& around) const;
  const Removed* find_removed(VariableId variable, const Around& around, std::uint64_t hash) const;
  Removed minimised(VariableId variable, const Around& around) const;
  bool dominate(VariableId variable);
  IdVector<VariableId, char>
      to_compare_;  // variables at which dominance has not been looked for since they changed
};

}  // namespace braid::solver
