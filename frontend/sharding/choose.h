// The choice of states for all tensors of a model on one mesh axis, as a problem of the solver (problem.h).
//
// A node has a variable with one choice per legal combination of its rule. A tensor with one reader adds costs to the pair of
// its producer and its reader: those of the conversion between what one computes and the other takes. A tensor with several
// readers has a variable of its own: the state in which it is produced, and at most two into which it is converted, so that a
// conversion that several readers share is paid once. Constants have any state that can be cut from them, without a
// conversion. The program takes and returns whole tensors, unless it is asked to keep its caches in parts (caches.h): a past and
// its present then have one state, which is a variable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/sharding/convert.h"
#include "frontend/sharding/graph.h"
#include "frontend/sharding/plan.h"
#include "frontend/sharding/problem.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {

// What things cost, from whoever knows the machine. All in whole picoseconds and at least 0.
struct SplitCosts {
  // A node on each rank with that combination.
  std::function<Cost(const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks)> node;
  std::function<Cost(const ConversionStep& step, int ranks)> step;
  // The size that an expression counts with, such as its upper bound.
  std::function<std::int64_t(const ir::Expr& size)> size;
};

struct ChosenNode {
  int node = -1;
  Strategy strategy;
  Cost cost = 0;
};
struct ChosenConversion {
  int value = -1;
  Spec from, to;
  std::vector<ConversionStep> steps;
  Cost cost = 0;
  std::vector<std::string> readers;  // by their names in plans; "": the program's output
};
struct SplitChoice {
  Plan plan;
  Solution solution;
  std::vector<ChosenNode> nodes;
  std::vector<ChosenConversion> conversions;
};

// How the program takes and returns caches.
enum class Caches : std::uint8_t { whole, in_parts };

// All plans of a graph on so many ranks, independent of costs.
class SplitSpace {
 public:
  // `graph` must outlive this. `fixed`: lines that every plan has, of the states in which values are computed and nodes take
  // them; its number of ranks counts for nothing. UserError kPlanMismatch if a line names nothing of the graph, or the lines leave a
  // node no combination of its rule.
  SplitSpace(const Graph& graph, int ranks, Caches caches = Caches::whole, const Plan& fixed = {});

  Problem problem(const SplitCosts& costs) const;
  // UserError kPlanMismatch if the fixed lines cannot be kept together.
  SplitChoice choose(const SplitCosts& costs, const SolveOptions& options = {}) const;
  int ranks() const { return ranks_; }

 private:
  struct Reader {
    int variable = -1;  // -1: the program's output, which is whole
    int input = 0;
  };
  struct ValueChoice {
    Spec produced;
    std::vector<Spec> converted;
  };
  // A tensor that is computed or given at run time.
  struct Flow {
    int value = -1;
    int producer = -1;  // variable; -1: given to the program, whole
    int output = 0;
    std::vector<Reader> readers;
    int variable = -1;  // its own, if several read it
    std::vector<ValueChoice> choices;
  };

  const Spec& taken(const Reader& reader, int choice) const;
  Cost conversion_cost(int value, const Spec& from, const Spec& to, const SplitCosts& costs) const;
  std::int64_t bytes(int value, const SplitCosts& costs) const;
  void add_flow(Flow flow);
  // Into which the tensor must be converted from that one, whatever is chosen.
  std::set<Spec> required_states(const Flow& flow, const Spec& from) const;
  // Variables of pairs of a past and a present: one that takes what it is given, as a node would.
  void add_caches();

  const Graph& graph_;
  int ranks_;
  bool has_fixed_lines_ = false;
  std::map<int, int> cache_inputs_;                // value: its variable
  std::map<int, int> cache_outputs_;               // index of a graph output: the variable of its past
  std::vector<int> nodes_;                         // per node variable: the graph's node; -1: a cache
  std::vector<int> variable_of_;                   // per node of the graph; -1: none
  std::vector<std::vector<Strategy>> strategies_;  // per node variable
  std::vector<Flow> flows_;
  int variables_ = 0;
};

}  // namespace braid::frontend::sharding
