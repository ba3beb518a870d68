// Lower bounds on the time of a step for all plans of a space, in whatever order the program runs.
//
//   variables    x: the choices of a plan;  w_r: the weight of row r
//   domains      x: as in the relaxed problem of split_space.h;  w_r in {0, 1/64, ..., 1} with sum_r w_r = 1
//   rows         r(x) = constant_r + floors of kernels of nodes + costs of conversions: sums that a step of
//                plan x cannot be shorter than (their kinds are below)
//   objective    max over w of  min over x of  sum_r w_r * r(x)
//   constraints  those of the relaxed problem
//   relaxation   a weighted mean of the rows takes the place of the largest row; conversions that the relaxed
//                problem leaves out cost nothing
//   bound        For any w, a step of x lasts at least max_r r(x) >= sum_r w_r * r(x) >= the minimum over all
//                plans. So every w that is tried yields a bound. The minimum is a problem of the solver
//                (problem.h), whose bound is used; w comes from fictitious play of the rows against the
//                plans found so far.
//
//   loads   work that shares one resource, whatever merging, fusion, splitting of collectives and overlap do.
//           One row has the kernels of products and attention, copies of caches and the launches of other
//           loops, which run one after another on each rank. The other row has the floors of the collectives,
//           which share a fabric.
//   order   work that must run one after another: a chain of nodes through the graph, with products and the
//           collectives between them, at their own times. Between two nodes of the chain, all products there
//           or the longest path count, whichever is more. Up to a node of the chain, all kernels before it
//           may count instead, without collectives, because a cache may be copied while one runs. Holds for
//           every order and fusion of a program whose collectives are not cut into pieces.
//
// Launches of loops. A kernel of loops does what no product, attention or collective can do. One case is a
// reduction over a dimension, because an epilogue sees one element of its product. The other combines several
// elements of one product's result with nothing else that is multiplied (rotary embeddings; ProductJoin).
// Kernels of loops hold loops only, and none may hold both ends of a path through another kernel
// (passes/fusion_graph.h). So two such loops with a product between them are two kernels, and the path with
// most of them counts. The copy of a cache is a kernel of its own if it is too large to be fused with small
// loops (passes/fuse_horizontal.h): no other loop reads the cache or may read what the copy writes.
//
// If a program may leave out some of its work (may_leave_out), the bounds are 0.
//
// Scope: this table of rules, this machine, the mesh of the space, at most two converted forms of a tensor.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "split/plan_bounds.h"
#include "split/product_join.h"
#include "split/space_prices.h"

namespace braid::split {

struct BoundOptions {
  SolveOptions solve;
  std::size_t cells = SplitSpace::kMostRelaxed;  // of the relaxed problem's tables
  int solves = 6;                                // for each kind of row, at most
  KnownBounds known = {};
  // The type in which products may compute instead of their own (--precision); absent: none.
  std::optional<ir::DType> precision;
  // FLOPs of the attention kernels of the whole program, shared equally among the names of the nodes that
  // they were made of. Only the compiler knows how much of the products masks leave.
  std::map<std::string, double> attention_flops = {};
  std::vector<ProductJoin> joins = {};
  // Whether caches that are returned with new rows occupy other memory than those that were given.
  bool copies_caches = true;
  // The most elements of a copy that passes may fuse with other loops. Larger copies are kernels of their
  // own.
  double largest_fused_copy = std::numeric_limits<double>::infinity();
};

// Returns a time that no program on that many ranks can beat, whatever its mesh and plan: all kernels of the
// loads, each cut into as many parts as there are ranks.
analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const BoundOptions& options);

class BoundSearch {
 public:
  // The space must outlive it.
  BoundSearch(const Graph& graph, const SplitSpace& space, std::shared_ptr<const analysis::CostModel> costs,
              BoundOptions options = {});
  // Uses the relaxed problem with that cell limit from now on.
  void relax(std::size_t cells);

  // Bounds all plans. Choices are of the space's problem; of a large space, of its nodes and caches. `seed`
  // is the choice of a good plan; `more` are choices that a search with fewer conversions has found. With
  // `may_end`, only the loads are bounded if they stay below the known ones, because the caller then looks
  // for closer bounds anyway.
  PlanBounds over_plans(const Assignment& seed, const std::vector<Assignment>& more = {},
                        bool may_end = false);
  // The choices of the plans that it looked at, without the seed.
  const std::vector<Assignment>& found() const { return found_; }
  // Bounds one plan.
  PlanBounds of_plan(const Assignment& choice);

 private:
  // A sum of times that a plan's step cannot be shorter than.
  struct Row {
    bool kernels = false;      // all kernels: loads
    bool collectives = false;  // the floors of all conversions: loads
    std::vector<VariableId> nodes;
    std::vector<PassageId> passages;
    Cost constant = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };

  // A plan, and lower bounds on its costs.
  struct Plan {
    Assignment choice;
    IdVector<VariableId, Cost> kernels;  // of nodes
    IdVector<PassageId, Cost> passages;  // the time until the reader has the tensor
    Cost collectives = 0;
  };

  struct KernelOrder;
  class LongestChain;
  class Mixture;
  void find_kernels(const Graph& graph, const analysis::CostModel& costs, const SplitCosts& sizes);
  void connect(const Graph& graph, const analysis::CostModel& costs, const SplitCosts& sizes);
  void find_distinct();
  void find_joins(const Graph& graph);
  // Whether all members to which the product leads, lead to the last one.
  bool joins(VariableId product, VariableId last, const std::vector<VariableId>& members) const;
  void count_loops();
  KernelOrder order_of_kernels() const;
  void find_chain();
  void find_chain(const KernelOrder& order);
  void find_joins_between(const KernelOrder& order);
  // With `all`, the plan's costs include conversions that the relaxed problem leaves out.
  Plan plan(const Assignment& choice, bool all);
  Row longest(const Plan& plan) const;
  Cost value(const Row& row, const Plan& plan) const;
  Problem mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights);  // over distinct choices
  // Raises `best` until it is enough, and adds the plans that it finds; with_order adds the rows of their
  // longest chains. With `may_end`, stops when a plan shows that `best` cannot become enough.
  void play(std::vector<Row>& rows, std::vector<Plan>& plans, bool with_order,
            std::optional<analysis::Time> known, bool may_end, Cost& best);

  const SplitSpace& space_;
  BoundOptions options_;
  Cost launch_ = 0;
  IdRange<VariableId> nodes_;                // in the order of the graph
  IdVector<VariableId, CostTable> kernels_;  // floors by choice
  Problem collectives_;                      // floors of conversions
  // Per variable: the first of all choices that are equal for the relaxed problem, where a large space leaves
  // out conversions; null: every choice.
  IdVector<VariableId, std::shared_ptr<const IdVector<ChoiceId, ChoiceId>>> distinct_;
  IdVector<PassageId, Passage> passages_;
  SpacePrices prices_;  // times of conversions, each alone on the machine
  SpacePrices floors_;  // loads that conversions put on the fabric
  // The time to copy the result of a collective into the program's output.
  IdVector<PassageId, Cost> copies_;
  IdVector<VariableId, std::vector<PassageId>> into_, out_of_;  // nodes
  // A chain of nodes such that every product comes before or after each of them. between_[i]: the products
  // between chain_[i - 1] and chain_[i]; the last list has those after the whole chain. copies_before_[i]:
  // copies of caches before chain_[i].
  std::vector<VariableId> chain_;
  std::vector<std::vector<VariableId>> between_, copies_before_;
  // Whether a loop must run between two of these products, or between one of them and the node.
  std::vector<char> joins_between_;
  IdVector<VariableId, char> product_, copy_, reduction_;  // of nodes
  IdVector<VariableId, VariableId> joined_;  // of a ProductJoin's last node: the product; otherwise invalid
  // The most kernels of loops on a path up to each node. loops_: all of them before some product.
  // loops_open_: on paths that need one more kernel before the next product, which is not counted; negative:
  // no such path.
  IdVector<VariableId, int> loops_, loops_open_;
  int loop_kernels_ = 0;  // on any path
  int solves_ = 0;
  std::vector<Assignment> found_;
  bool none_ = false;  // nothing is known
};

}  // namespace braid::split
