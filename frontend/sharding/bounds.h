// What no plan of a space can be faster than, in whatever order its program runs.
//
// A bound is a weighted mean of quantities of a plan, each of which its step must last at least (rows). Rows are sums of
// costs of nodes and of conversions, so the least mean over all plans is a problem of the solver, whose bound is exact; the
// largest over the weights is the value of a game between plans and rows, which is approached from below: every weight that is
// tried yields a bound.
//
//   loads   the kernels of products and attention, which run one after another on each rank, and the floors of the
//           collectives, which share a fabric. Whatever merging, fusion, splitting of collectives and overlap do.
//   order   a chain through the graph, of what must run after one another: products and the collectives between them, at
//           their own times. Between two nodes of the chain everything that depends on the one and leads to the other counts,
//           either all of its kernels or its longest path. Holds for every order and fusion of a program whose collectives are
//           not cut into pieces.
//
// Scope: this table of rules, this machine, the mesh of the space, at most two converted forms of a tensor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "frontend/sharding/choose.h"

namespace braid::frontend::sharding {

struct BoundOptions {
  SolveOptions solve;
  int solves = 6;  // for each kind of row, at most
  // The type in which products may compute instead of their own (--precision); absent: none.
  std::optional<ir::DType> precision;
  // Of attention kernels of the whole program, in equal shares by the names of the nodes of which they were made: only the compiler
  // knows what masks leave of the products.
  std::map<std::string, double> attention_flops = {};
  bool copies_caches =
      true;  // caches that are returned with new rows are not the memory of those that were given
};

struct PlanBounds {
  analysis::Time loads, order;
  int solves = 0;
};

// No program on so many ranks is faster, whatever its mesh and its plan: the kernels of the loads, each cut into as many parts as there
// are ranks.
analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const BoundOptions& options);

class BoundSearch {
 public:
  BoundSearch(const Graph& graph, const SplitSpace& space, std::shared_ptr<const analysis::CostModel> costs,
              BoundOptions options = {});

  // Choices are of the space's problem; of a large space, of its nodes and caches.
  // Of all plans. `seed` is the choice of a good one.
  PlanBounds over_plans(const std::vector<int>& seed);
  // Of one plan.
  PlanBounds of_plan(const std::vector<int>& choice) const;

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

  void find_chain();
  Row longest(const std::vector<int>& choice) const;
  Cost value(const Row& row, const std::vector<int>& choice) const;
  Problem mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights) const;
  // Raises `best`, adding the plans that it finds; rows of their longest chains too if `with_order`.
  void play(std::vector<Row>& rows, std::vector<std::vector<int>>& plans, bool with_order, Cost& best);
  Cost kernel(int variable, const std::vector<int>& choice) const {
    const auto v = static_cast<std::size_t>(variable);
    return kernels_[v][static_cast<std::size_t>(choice[v])];
  }
  bool is_kernel(int variable) const;
  Cost passage(std::size_t index, const std::vector<int>& choice) const;

  BoundOptions options_;
  Cost launch_ = 0;
  int nodes_ = 0;                           // variables of nodes: the first ones, in the order of the graph
  std::vector<std::vector<Cost>> kernels_;  // floors by variable and choice
  Problem collectives_;                     // floors of conversions
  std::vector<Passage> passages_;
  std::vector<std::vector<int>> into_, out_of_;  // per node variable: passages
  // A chain of nodes that every kernel comes before or after, and the kernels between each and the one before it; the last
  // list is of those after all.
  std::vector<int> chain_;
  std::vector<std::vector<int>> between_;
  std::vector<char> reduction_, own_kernel_;  // per node variable
  int solves_ = 0;
};

}  // namespace braid::frontend::sharding
