// The choice of states for all tensors of a model on a mesh, as a problem of the solver (problem.h).
//
//   variables    x_n per node n that runs, and per cache if caches stay in parts (caches.h);
//                y_t = (p, S) per tensor t with several readers: the state p in which it is produced, and the
//                states S into which it is converted, each once for all readers
//   domains      x_n: the legal combinations of the node's rule; on several axes, the legal tuples of them
//                x_c of a cache: its states, the same for the past and the present
//                y_t: p as the producer may leave it; S at most two states that readers take (at most one on
//                several axes where pairs would be too many), or all required states if these are more than
//                two; also all reachable ones in a part of a space or with SpaceOptions::keeps
//   objective    min over x, y of  sum_n cost_n(x_n)
//                + sum over tensors t with one reader r of  conv_t(out_t(x_producer(t)), in_r(x_r))
//                + sum over tensors t with several readers of  sum_{s in S} conv_t(p, s)
//   constraints  out_t(x_producer(t)) = p;  in_r(x_r) = p or in_r(x_r) in S for each reader r of t;
//                no conversion is impossible
//   relaxation   problem(costs, true): a tensor whose pairs are too many has no y_t. Each of its R readers
//                pays conv_t(p, in_r(x_r)) / R, rounded down. In a large space this holds for every tensor
//                with several readers, and conversions beyond `cells` table cells are left out.
//   bound        A plan pays at least the dearest of the R conversions, which is at least the sum of the R
//                shares. Costs that are left out are at least 0.
//
// Constants have any state that can be cut from them, without a conversion. The program takes and returns
// whole tensors, but for caches in parts and the states that SpaceOptions give.
//
// A space with too many choices is large (SplitSpace::large). Then choose_split chooses the states of one
// axis after another, each exactly for the given states of the others, until none becomes cheaper. Only the
// relaxed problem of the whole space exists, for bounds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "solver/problem.h"
#include "split/conversion_steps.h"
#include "split/factors.h"
#include "split/graph.h"
#include "split/plan.h"

namespace braid::split {

using solver::Cost;
using solver::CostTable;
using solver::Edge;
using solver::kForbidden;
using solver::kLargestTotal;
using solver::Problem;
using solver::RowRange;
using solver::Solution;
using solver::SolveOptions;
using solver::Status;
using solver::Usage;

class StateCodes;

// One combination of a node per axis.
using Combination = std::span<const Strategy* const>;

// Costs in whole picoseconds, at least 0, from a model of the machine.
struct SplitCosts {
  // The cost of a node on each rank with that combination, on one axis.
  std::function<Cost(const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks)> node;
  // The same on several axes; required only for meshes with more than one.
  std::function<Cost(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh)>
      node_on_mesh;
  // The same in two steps, for callers that price many combinations of one node; may be empty. Nodes with
  // equal combinations and equal keys cost the same.
  std::function<int(const Graph& graph, const GraphNode& node)> key;
  std::function<Cost(int key, Combination axes, const Mesh& mesh)> of_key;
  StepCost step;
  // The size that an expression counts with, such as its upper bound.
  std::function<std::int64_t(const ir::Expr& size)> size;
};

// Returns the cost of a node, including the collectives inside its local form.
Cost cost_of(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
             const SplitCosts& costs);

struct ChosenNode {
  int node = -1;
  std::vector<const Strategy*> axes;
  Cost cost = 0;
  std::shared_ptr<const std::deque<Strategy>> strategies;  // the space's, which own those of `axes`

  bool is_split() const;  // whether it computes a part on some axis
};
struct ChosenConversion {
  int value = -1;
  MeshSpec from, to;
  std::vector<ConversionStep> steps;
  Cost cost = 0;
  std::vector<std::string> readers;  // by their names in plans; "": the program's output
};
// A choice of a space, without its plan.
struct SpaceSolution {
  Solution solution;
  bool joint = true;  // over all axes at once
  // The sequence of cheapest choices that led to this solution. Plan cost is linear in the costs, so if two
  // searches took the same sequence, any search whose costs lie between theirs takes it too. Empty: some
  // choice was not proved to be the cheapest.
  std::vector<std::vector<int>> way;
};

struct SplitChoice : SpaceSolution {
  MeshPlan plan;
  std::vector<ChosenNode> nodes;
  std::vector<ChosenConversion> conversions;

  // Returns the cost of these nodes and conversions, perhaps with other costs than those of the search.
  Cost price(const Graph& graph, const SplitCosts& costs) const;
};

// The conversion that one reader of a tensor waits for: from the produced state to the state that the reader
// takes. One or two variables decide both.
struct Passage {
  int producer = -1;  // node variable; -1: the program is given the tensor
  int reader = -1;    // node variable; -1: the program returns it
  int value = -1;
  int from = -1;
  int to = -1;         // -1: `from` decides it alone
  bool given = false;  // then `from` is the reader
  bool free = false;   // its conversion is not in the relaxed problem
  // The state of each choice of `from`; a single state if the program is given the tensor. The space owns
  // both lists.
  const std::vector<int>* produced = nullptr;
  // The state of each choice of `to`, or of `from` for a given tensor; a single state if the program returns
  // the tensor.
  const std::vector<int>* taken = nullptr;
};

// Returns the states, other than `from`, each of which is the only one that some reader takes. The tensor is
// converted into all of them, whatever is chosen. `taken`: per reader, the state that it takes with each of
// its choices.
std::vector<int> required_states(std::span<const std::vector<int>* const> taken, int from);

// How the program takes and returns caches.
enum class Caches : std::uint8_t { whole, in_parts };

struct SpaceOptions {
  Caches caches = Caches::whole;
  // The legal combinations of a node to consider. If none passes, all are considered and the node is in
  // unmet().
  std::function<bool(int node, Combination axes)> keeps;
  // States, other than whole, of graph inputs (by value) and of graph outputs (by index).
  std::map<int, MeshSpec> given, returned;
  BlockCandidates blocks;  // on each axis, in addition to those that the graph suggests
  // The most cells of all tables together; on several axes, a space with more is large.
  std::size_t cells = std::size_t{1} << 22;
};

// All plans of a graph on a mesh, independent of costs.
class SplitSpace {
 public:
  // `graph` must outlive this.
  SplitSpace(const Graph& graph, const Mesh& mesh, SpaceOptions options = {});
  SplitSpace(const Graph& graph, int ranks, Caches caches = Caches::whole)
      : SplitSpace(graph, Mesh::line(ranks), SpaceOptions{caches, {}, {}, {}, {}}) {}
  // The plans of `whole`, which must outlive this, with one axis left open: on the other axes each node is as
  // in `choice`, or whole if `choice` is empty.
  SplitSpace(const SplitSpace& whole, int open_axis, const std::vector<int>& choice);
  // The plans of `whole`, which must outlive this, in which each node is split the same way on all axes, as
  // on a line of that many ranks.
  static SplitSpace alike(const SplitSpace& whole) { return {whole, kAllAlike, {}}; }
  SplitSpace(const SplitSpace&) = delete;

  // Returns the problem stated above, or its relaxation, which bounds every plan with at most two converted
  // forms of a tensor from below. A large space has only the relaxed problem. It keeps the smallest tables of
  // conversions, as long as they have at most `cells` cells together; equal tables count once.
  Problem problem(const SplitCosts& costs, bool relaxed = false, std::size_t cells = kMostRelaxed) const;
  // Cell limits. kMostRelaxed gives the tightest bound but is slow; kFewRelaxed is usually as tight.
  static constexpr std::size_t kMostRelaxed = std::size_t{1} << 18, kFewRelaxed = std::size_t{1} << 16;
  // Whether the relaxed problem with this cell limit leaves out conversions.
  bool leaves_out(std::size_t cells) const;
  // Chooses the cheapest plan. `restrict` adds limits and forbids choices before the problem is solved. The
  // result has no nodes or conversions if the problem is infeasible, which only the options can cause, or if
  // no choice was found that keeps the restrictions.
  SplitChoice choose(const SplitCosts& costs, const SolveOptions& options = {},
                     const std::function<void(Problem&)>& restrict = nullptr) const;
  // The same without the plan.
  SpaceSolution solved(const SplitCosts& costs, const SolveOptions& options = {},
                       const std::function<void(Problem&)>& restrict = nullptr) const;
  // Makes the plan of a solution, if it is feasible. In a large space the choice is of nodes and caches only.
  SplitChoice described(const SplitCosts& costs, SpaceSolution solution) const;
  const Mesh& mesh() const { return mesh_; }
  int ranks() const { return mesh_.ranks(); }
  // Whether it has too many choices to be searched as a whole. Then only the relaxed problem can be solved.
  bool large() const { return large_; }
  const std::vector<int>& unmet() const { return unmet_; }

  // Returns the passages of problem(costs, relaxed, cells).
  std::vector<Passage> passages(bool relaxed = false, std::size_t cells = kMostRelaxed) const;
  int variables() const { return variables_; }
  // Returns the graph's node of a variable; -1 if it is of no node. Variables of nodes come first, in graph
  // order.
  int node_of(int variable) const {
    return variable < static_cast<int>(nodes_.size()) ? nodes_[static_cast<std::size_t>(variable)] : -1;
  }
  // Returns the variable of a cache, by its value among the inputs or its index among the outputs; -1: it has
  // none.
  int variable_of_cache_input(int value) const { return found_in(cache_inputs_, value); }
  int variable_of_cache_output(int output) const { return found_in(cache_outputs_, output); }
  // Converts a choice of a space that was made of this one to a choice of this one, for nodes and caches
  // only.
  std::vector<int> choice_of(const SplitSpace& part, const std::vector<int>& choice) const;
  // The number of choices of a node's or cache's variable.
  int choices_of(int variable) const { return static_cast<int>(choices(variable).size()); }
  // Variables with one address have the same choices.
  const void* address_of_choices(int variable) const { return choices_[static_cast<std::size_t>(variable)]; }
  // The strategies of a node's variable, by axis.
  Combination combination(int variable, int choice) const { return this->choice(variable, choice).axes; }
  // A lower bound on the cost of the nodes of any plan, without conversions.
  Cost least_of_nodes(const SplitCosts& costs) const;
  // Whether a choice of all variables splits something into padded parts.
  bool pads(const std::vector<int>& choice) const;
  // Forbids all choices with padded parts in a problem of this space.
  void forbid_padding(Problem& problem) const;
  const MeshSpec& taken_state(int variable, int choice, int input) const {
    const Choice& c = this->choice(variable, choice);
    return spec(c.inputs[static_cast<std::size_t>(input)]);
  }
  const MeshSpec& produced_state(int variable, int choice, int output) const {
    const Choice& c = this->choice(variable, choice);
    return spec(c.outputs[static_cast<std::size_t>(output)]);
  }

 private:
  friend class SpacePrices;
  static constexpr int kAllAlike = -1;  // takes the place of an open axis
  struct Choice {
    std::vector<const Strategy*> axes;
    std::vector<int> inputs, outputs;  // states
    bool padded = false;
  };
  // Equal nodes share their choices. Producers and readers of equal tensors share their states. A part of a
  // space has choices of the whole.
  using Choices = const std::vector<const Choice*>*;
  using States = const std::vector<int>*;
  struct Reader {
    int variable = -1;       // -1: the program's output
    int input = 0;           // if it is the program's output: its index
    States taken = nullptr;  // per choice; a single one for the program's output
  };
  struct ValueChoice {
    int produced = 0;
    std::vector<int> converted;
  };
  // The choices of a tensor with several readers.
  struct ValueChoices {
    std::vector<ValueChoice> all;
    std::vector<int> produced;  // per choice of `all`
    bool complete = false;      // whether `all` has all pairs of converted forms
    bool too_many = false;      // then `all` is empty
  };
  // A tensor that is computed or given at run time, and its readers.
  struct Flow {
    int value = -1;
    int producer = -1;  // variable; -1: given to the program
    int output = 0;
    std::size_t first_reader = 0, readers = 0;  // in readers_
    States produced = nullptr;  // per choice of the producer; a single one if the program is given it
    int variable = -1;          // its own, if it has several readers
    const ValueChoices* choices = nullptr;  // those of its variable
    // In a large space: the cells of its tables in the relaxed problem and of all smaller ones.
    std::size_t cells = 0;
  };
  class Tables;
  Problem problem(Tables& tables, const SplitCosts& costs, bool relaxed, std::size_t cells) const;

  // How a tuple of strategies cuts a tensor.
  struct Cut {
    int state = -1;  // -1: it cannot be cut that way
    bool padded = false;
  };
  static int found_in(const std::map<int, int>& all, int key) {
    const auto found = all.find(key);
    return found == all.end() ? -1 : found->second;
  }
  const std::vector<const Choice*>& choices(int variable) const {
    return *choices_[static_cast<std::size_t>(variable)];
  }
  const Choice& choice(int variable, int choice) const {
    return *choices(variable)[static_cast<std::size_t>(choice)];
  }
  std::span<const Reader> readers(const Flow& flow) const {
    return std::span(readers_).subspan(flow.first_reader, flow.readers);
  }
  int state(const MeshSpec& spec);
  const MeshSpec& spec(int state) const { return states_->specs[static_cast<std::size_t>(state)]; }
  Cut cut(int value, const std::vector<std::int64_t>& sizes, const MeshSpec& whole);
  Choices make_choices(int node, const std::vector<const BlockCandidates*>& candidates);
  void add_choices(int node, Choices all);
  Choices listed(std::vector<const Choice*> choices);
  std::vector<CostTable> node_costs(const SplitCosts& costs) const;
  int taken(const Reader& reader, int choice) const {
    return (*reader.taken)[reader.variable < 0 ? 0 : static_cast<std::size_t>(choice)];
  }
  States shared(std::vector<int> states);
  States states_of(int variable, bool of_outputs, int number);
  States produced_by(const Flow& flow);
  States taken_by(const Reader& reader);
  std::optional<std::vector<ConversionStep>> steps(int value, int from, int to,
                                                   const SplitCosts& costs) const;
  std::int64_t bytes(int value, const SplitCosts& costs) const;
  bool convertible(int value, int from, int to) const;
  static bool has_variable(const Flow& flow, bool relaxed) {
    return flow.variable >= 0 && (!relaxed || flow.choices->complete);
  }
  void add_connections();
  void add_flows();
  void add_variable(Flow& flow);  // if it needs one
  // A key: tensors with equal keys have the same choices.
  std::vector<std::intptr_t> address(const Flow& flow) const;
  ValueChoices value_choices(const Flow& flow) const;
  // Adds a variable for each pair of a past and a present. Like a node, it takes what it is given.
  void add_caches();
  void measure();
  std::vector<int> order() const;

  const Graph& graph_;
  Mesh mesh_;
  SpaceOptions options_;
  // All states that occur; the first one is replicated.
  struct StateTable {
    std::vector<MeshSpec> specs;
    std::unordered_map<MeshSpec, int, MeshSpecHash> index;
    std::shared_ptr<const StateCodes> codes;  // made when all states are known
  };
  // Parts of a space share it.
  std::shared_ptr<StateTable> states_ = std::make_shared<StateTable>();
  // Cuts by the sizes of the tensor.
  std::map<std::vector<std::int64_t>, std::unordered_map<MeshSpec, Cut, MeshSpecHash>> cuts_;
  // Parts of a space share them, too.
  std::shared_ptr<std::deque<Strategy>> strategies_ = std::make_shared<std::deque<Strategy>>();
  std::map<int, int> cache_inputs_;   // value: its variable
  std::map<int, int> cache_outputs_;  // index of a graph output: the variable of its past
  std::vector<int> nodes_;            // per node variable: the graph's node; -1: a cache
  std::vector<int> variable_of_;      // per node of the graph; -1: none
  std::vector<Choices> choices_;      // per node variable
  // Per node variable of a part: its choices in the whole space; null: all.
  std::vector<States> kept_;
  std::deque<Choice> own_choices_;
  std::deque<std::vector<const Choice*>> choice_lists_;
  std::map<int, int> given_, returned_;  // the states of options_
  std::vector<Flow> flows_;
  std::vector<Reader> readers_;  // of all flows
  std::vector<int> unmet_;
  // Shared by equal nodes and tensors.
  std::set<std::vector<int>> lists_;
  // By choices: the states of each output, and of each input.
  std::unordered_map<const void*, std::pair<std::vector<States>, std::vector<States>>> lists_of_;
  std::map<std::vector<std::intptr_t>, ValueChoices> values_;  // by type and the addresses of states
  int variables_ = 0;
  bool large_ = false;
  bool part_ = false;  // whether it was made of another space
};

// The costs of a space's choices and conversions. Each cost is asked for once.
class SpacePrices {
 public:
  SpacePrices(const SplitSpace& space, SplitCosts costs);  // the space must outlive it
  SpacePrices(SpacePrices&&) noexcept;
  ~SpacePrices();

  // The same as SplitSpace::problem.
  Problem problem(bool relaxed = false, std::size_t cells = SplitSpace::kMostRelaxed);
  // Returns the cost of a passage with these choices of passage.from and passage.to; 0 if the conversion is
  // impossible, since the problem forbids that anyway.
  Cost of(const Passage& passage, int from, int to);
  // Returns costs[i * (choices of `to`) + j]; without `to`, one cost per choice of `from`.
  const CostTable& table(const Passage& passage);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Chooses on the space's mesh: over all axes at once or, if the space is large, on one axis after another.
SplitChoice choose_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options = {});
SpaceSolution solved_split(const SplitSpace& space, const SplitCosts& costs,
                           const SolveOptions& options = {});
// Adds limits to the problem of a space that was made of another one.
using RestrictPart = std::function<void(const SplitSpace&, Problem&)>;
// Chooses on one axis after another, beginning with the last, until none becomes cheaper. Gives no bound.
// Starts from `from`, or from whole tensors if that is empty. With `restrict`, `from` must keep the limits;
// it is the solution, with cost kForbidden, if no other choice is found that keeps them.
SpaceSolution solved_in_turn(const SplitSpace& space, const SplitCosts& costs, SolveOptions options = {},
                             std::vector<int> from = {}, const RestrictPart& restrict = nullptr);

}  // namespace braid::split
