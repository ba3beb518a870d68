// What no plan of a space can be faster than, in whatever order its program runs.
//
// A bound is a weighted mean of quantities of a plan, each of which its step must last at least (rows). Rows are sums of
// costs of nodes and of conversions, so the least mean over all plans is a problem of the solver, whose bound is exact; the
// largest over the weights is the value of a game between plans and rows, which is approached from below: every weight that is
// tried yields a bound.
//
//   loads   the kernels of products and attention, caches that are copied, and the launches of other loops, which run one after
//           another on each rank, and the floors of the collectives, which share a fabric. Whatever merging, fusion, splitting
//           of collectives and overlap do.
//   order   a chain through the graph, of what must run after one another: products and the collectives between them, at
//           their own times. Between two nodes of the chain everything that depends on the one and leads to the other counts,
//           either all of its kernels or its longest path; up to a node of the chain perhaps all kernels that come before it,
//           without collectives, because a cache may be copied while one runs. Holds for every order and fusion of a program
//           whose collectives are not cut into pieces.
//
// Launches of loops. What no product, no attention and no collective can do is in a kernel of loops: a reduction over a dimension
// (an epilogue sees one element of its product), and what is made from several elements of one product's result and of nothing
// else that is multiplied (rotary embeddings; ProductJoin). Nodes of loops hold loops only, and none may hold both ends of a
// path through another kernel (passes/fusion_graph.h), so two such loops with a product between them are two kernels: the path
// with most of them counts. A cache is copied by a kernel of its own, for no other loop reads it or may read what it writes, if
// it is too large for being fused with whatever is small (passes/fuse_horizontal.h).
//
// Where a program may leave out some of its work (may_leave_out), nothing is known, and the bounds are 0.
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
#include "split/space.h"

namespace braid::split {

struct BoundOptions {
  SolveOptions solve;
  std::size_t cells = SplitSpace::kMostRelaxed;  // of the relaxed problem's tables
  int solves = 6;                                // for each kind of row, at most
  KnownBounds known = {};
  // The type in which products may compute instead of their own (--precision); absent: none.
  std::optional<ir::DType> precision;
  // Of attention kernels of the whole program, in equal shares by the names of the nodes of which they were made: only the compiler
  // knows what masks leave of the products.
  std::map<std::string, double> attention_flops = {};
  std::vector<ProductJoin> joins = {};
  bool copies_caches =
      true;  // caches that are returned with new rows are not the memory of those that were given
  // The most elements of a copy that passes may fuse with other loops: larger ones are kernels of their own.
  double largest_fused_copy = std::numeric_limits<double>::infinity();
};

// No program on so many ranks is faster, whatever its mesh and its plan: the kernels of the loads, each cut into as many parts as there
// are ranks.
analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const BoundOptions& options);

class BoundSearch {
 public:
  // The space must outlive it.
  BoundSearch(const Graph& graph, const SplitSpace& space, std::shared_ptr<const analysis::CostModel> costs,
              BoundOptions options = {});
  // Looks at the relaxed problem with so many cells from now on.
  void relax(std::size_t cells);

  // Choices are of the space's problem; of a large space, of its nodes and caches.
  // Of all plans. `seed` is the choice of a good one; `more` are what a search with fewer conversions has found. With `may_end`, only of
  // the loads if these are less than what is known: then closer bounds are looked for anyhow.
  PlanBounds over_plans(const std::vector<int>& seed, const std::vector<std::vector<int>>& more = {},
                        bool may_end = false);
  // Choices of the plans that it looked at, beside the seed.
  const std::vector<std::vector<int>>& found() const { return found_; }
  // Of one plan.
  PlanBounds of_plan(const std::vector<int>& choice);

 private:
  // A sum that a plan's step cannot be shorter than.
  struct Row {
    bool kernels = false;      // all kernels: loads
    bool collectives = false;  // the floors of all conversions: loads
    std::vector<int> nodes;    // variables
    std::vector<int> passages;
    Cost constant = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };

  // A plan, and what it costs at least.
  struct Plan {
    std::vector<int> choice;
    std::vector<Cost> kernels;   // per node variable
    std::vector<Cost> passages;  // each as late as that
    Cost collectives = 0;
  };

  void find_distinct();
  void find_joins(const Graph& graph, const SplitSpace& space);
  void count_loops();
  void find_chain();
  // With the conversions that are not in the relaxed problem if `all`.
  Plan plan(const std::vector<int>& choice, bool all);
  Row longest(const Plan& plan) const;
  Cost value(const Row& row, const Plan& plan) const;
  Problem mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights);  // over distinct choices
  // Raises `best` until it is enough, adding the plans that it finds; rows of their longest chains too if `with_order`. `may_end`: no longer
  // than it can become enough.
  void play(std::vector<Row>& rows, std::vector<Plan>& plans, bool with_order,
            std::optional<analysis::Time> known, bool may_end, Cost& best);

  const SplitSpace& space_;
  BoundOptions options_;
  Cost launch_ = 0;
  int nodes_ = 0;                   // variables of nodes: the first ones, in the order of the graph
  std::vector<CostTable> kernels_;  // floors by variable and choice
  Problem collectives_;             // floors of conversions
  // Per variable: the first of all choices that differ in nothing that the relaxed problem counts, where conversions of a large space are
  // left out; null: every choice.
  std::vector<std::shared_ptr<const std::vector<int>>> distinct_;
  std::vector<Passage> passages_;
  SpacePrices prices_;        // of conversions, each alone on the machine
  SpacePrices floors_;        // what conversions load the fabric with
  std::vector<Cost> copies_;  // per passage: of what a collective makes for the program's output
  std::vector<std::vector<int>> into_, out_of_;  // per node variable: passages
  // A chain of nodes that every product comes before or after, and the products between each and the one before it; the last
  // list is of those after all. Copies of caches: those that come before the node.
  std::vector<int> chain_;
  std::vector<std::vector<int>> between_, copies_before_;
  std::vector<char>
      joins_between_;  // whether a loop must run between two of these products, or before the node
  std::vector<char> product_, copy_, reduction_;  // per node variable
  std::vector<int> joined_;                       // of a ProductJoin's last node: the product; -1
  // The most kernels of loops on a path up to a node, all of them before a product, and those of paths on which another one is to
  // come before the next product (without it; negative: on none).
  std::vector<int> loops_, loops_open_;
  int loop_kernels_ = 0;  // on any path
  int solves_ = 0;
  std::vector<std::vector<int>> found_;
  bool none_ = false;  // nothing is known
};

}  // namespace braid::split
