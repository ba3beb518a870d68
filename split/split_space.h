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

#include "split/passage.h"
#include "split/split_choice.h"
#include "split/split_costs.h"

namespace braid::split {

class StateCodes;

// How the program takes and returns caches.
enum class Caches : std::uint8_t { whole, in_parts };

struct SpaceOptions {
  Caches caches = Caches::whole;
  // The legal combinations of a node to consider. If none passes, all are considered and the node is in
  // unmet().
  std::function<bool(NodeId node, Combination axes)> keeps;
  // States, other than whole, of graph inputs (by value) and of graph outputs (by index).
  std::map<ValueId, MeshSpec> given;
  std::map<int, MeshSpec> returned;
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
  SplitSpace(const SplitSpace& whole, int open_axis, const Assignment& choice);
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
  const std::vector<NodeId>& unmet() const { return unmet_; }

  // Returns the passages of problem(costs, relaxed, cells).
  IdVector<PassageId, Passage> passages(bool relaxed = false, std::size_t cells = kMostRelaxed) const;
  IdRange<VariableId> variables() const { return {VariableId{0}, end_}; }
  // Variables of nodes come first, in graph order.
  IdRange<VariableId> node_variables() const { return {VariableId{0}, end_of_nodes_}; }
  // Returns the graph's node of a variable; invalid if it is of no node.
  NodeId node_of(VariableId variable) const { return variable < end_of_nodes_ ? nodes_[variable] : NodeId{}; }
  // Returns the variable of a node; invalid if it is computed at compile time.
  VariableId variable_of(NodeId node) const { return variable_of_[node]; }
  // Returns the variable of a cache, by its value among the inputs or its index among the outputs; invalid:
  // it has none.
  VariableId variable_of_cache_input(ValueId value) const { return found_in(cache_inputs_, value); }
  VariableId variable_of_cache_output(int output) const { return found_in(cache_outputs_, output); }
  // Converts a choice of a space that was made of this one to a choice of this one, for nodes and caches
  // only.
  Assignment choice_of(const SplitSpace& part, const Assignment& choice) const;
  // The choices of a node's or cache's variable.
  IdRange<ChoiceId> choices_of(VariableId variable) const { return choices(variable).ids(); }
  // Variables with one address have the same choices.
  const void* address_of_choices(VariableId variable) const { return choices_[variable]; }
  // The strategies of a node's variable, by axis.
  Combination combination(VariableId variable, ChoiceId choice) const {
    return this->choice(variable, choice).axes;
  }
  // A lower bound on the cost of the nodes of any plan, without conversions.
  Cost least_of_nodes(const SplitCosts& costs) const;
  // Whether a choice of all variables splits something into padded parts.
  bool pads(const Assignment& choice) const;
  // Forbids all choices with padded parts in a problem of this space.
  void forbid_padding(Problem& problem) const;
  const MeshSpec& taken_state(VariableId variable, ChoiceId choice, int input) const {
    return spec(this->choice(variable, choice).inputs[input]);
  }
  const MeshSpec& produced_state(VariableId variable, ChoiceId choice, int output) const {
    return spec(this->choice(variable, choice).outputs[output]);
  }

 private:
  friend class SpacePrices;
  static constexpr int kAllAlike = -1;  // takes the place of an open axis
  struct Choice {
    std::vector<const Strategy*> axes;
    std::vector<StateId> inputs, outputs;
    bool padded = false;
  };
  // Equal nodes share their choices. Producers and readers of equal tensors share their states. A part of a
  // space has choices of the whole.
  using Choices = const IdVector<ChoiceId, const Choice*>*;
  struct Reader {
    VariableId variable;     // invalid: the program's output
    int input = 0;           // if it is the program's output: its index
    States taken = nullptr;  // per choice; a single one for the program's output
  };
  struct ValueChoice {
    StateId produced;
    std::vector<StateId> converted;
  };
  // The choices of a tensor with several readers.
  struct ValueChoices {
    IdVector<ChoiceId, ValueChoice> all;
    IdVector<ChoiceId, StateId> produced;
    bool complete = false;  // whether `all` has all pairs of converted forms
    bool too_many = false;  // then `all` is empty
  };
  // A tensor that is computed or given at run time, and its readers.
  struct Flow {
    ValueId value;
    VariableId producer;  // invalid: given to the program
    int output = 0;
    std::size_t first_reader = 0, readers = 0;  // in readers_
    States produced = nullptr;  // per choice of the producer; a single one if the program is given it
    VariableId variable;        // its own, if it has several readers
    const ValueChoices* choices = nullptr;  // those of its variable
    // In a large space: the cells of its tables in the relaxed problem and of all smaller ones.
    std::size_t cells = 0;
  };
  class Tables;
  Problem problem(Tables& tables, const SplitCosts& costs, bool relaxed, std::size_t cells) const;

  // How a tuple of strategies cuts a tensor.
  struct Cut {
    StateId state;  // invalid: it cannot be cut that way
    bool padded = false;
  };
  template <class Key>
  static VariableId found_in(const std::map<Key, VariableId>& all, Key key) {
    const auto found = all.find(key);
    return found == all.end() ? VariableId{} : found->second;
  }
  const IdVector<ChoiceId, const Choice*>& choices(VariableId variable) const { return *choices_[variable]; }
  const Choice& choice(VariableId variable, ChoiceId choice) const { return *choices(variable)[choice]; }
  std::span<const Reader> readers(const Flow& flow) const {
    return std::span(readers_).subspan(flow.first_reader, flow.readers);
  }
  StateId state(const MeshSpec& spec);
  const MeshSpec& spec(StateId state) const { return states_->specs[state]; }
  Cut cut(ValueId value, const std::vector<std::int64_t>& sizes, const MeshSpec& whole);
  Choices make_choices(NodeId node, const std::vector<const BlockCandidates*>& candidates);
  std::vector<const Strategy*> distinct_strategies(const GraphNode& node, int ranks,
                                                   const BlockCandidates& candidates);
  struct NodeTensor;
  bool is_legal(const GraphNode& node, const std::vector<std::size_t>& tuple,
                std::vector<NodeTensor>& tensors, Choice& choice);
  void add_choices(NodeId node, Choices all);
  Choices listed(IdVector<ChoiceId, const Choice*> choices);
  IdVector<VariableId, CostTable> node_costs(const SplitCosts& costs) const;
  States shared(IdVector<ChoiceId, StateId> states);
  States states_of(VariableId variable, bool of_outputs, int number);
  States produced_by(const Flow& flow);
  States taken_by(const Reader& reader);
  std::optional<std::vector<ConversionStep>> steps(ValueId value, StateId from, StateId to,
                                                   const SplitCosts& costs) const;
  std::int64_t bytes(ValueId value, const SplitCosts& costs) const;
  bool convertible(ValueId value, StateId from, StateId to) const;
  static bool has_variable(const Flow& flow, bool relaxed) {
    return flow.variable.valid() && (!relaxed || flow.choices->complete);
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
  std::vector<VariableId> order() const;
  void describe_nodes(const SplitCosts& costs, SplitChoice& result) const;
  void describe_conversions(const SplitCosts& costs, SplitChoice& result) const;

  const Graph& graph_;
  Mesh mesh_;
  SpaceOptions options_;
  // All states that occur; the first one is replicated.
  struct StateTable {
    IdVector<StateId, MeshSpec> specs;
    std::unordered_map<MeshSpec, StateId, MeshSpecHash> index;
    std::shared_ptr<const StateCodes> codes;  // made when all states are known
  };
  // Parts of a space share it.
  std::shared_ptr<StateTable> states_ = std::make_shared<StateTable>();
  // Cuts by the sizes of the tensor.
  std::map<std::vector<std::int64_t>, std::unordered_map<MeshSpec, Cut, MeshSpecHash>> cuts_;
  // Parts of a space share them, too.
  std::shared_ptr<std::deque<Strategy>> strategies_ = std::make_shared<std::deque<Strategy>>();
  std::map<ValueId, VariableId> cache_inputs_;
  std::map<int, VariableId> cache_outputs_;   // by index of a graph output
  IdVector<VariableId, NodeId> nodes_;        // of nodes and caches; invalid: a cache
  IdVector<NodeId, VariableId> variable_of_;  // invalid: none
  IdVector<VariableId, Choices> choices_;     // of nodes and caches
  // Per node variable of a part: its choices in the whole space; null: all.
  using Kept = const IdVector<ChoiceId, ChoiceId>*;
  IdVector<VariableId, Kept> kept_;
  std::deque<IdVector<ChoiceId, ChoiceId>> kept_lists_;
  std::deque<Choice> own_choices_;
  std::deque<IdVector<ChoiceId, const Choice*>> choice_lists_;
  // The states of options_.
  std::map<ValueId, StateId> given_;
  std::map<int, StateId> returned_;
  std::vector<Flow> flows_;
  std::vector<Reader> readers_;  // of all flows
  std::vector<NodeId> unmet_;
  // Shared by equal nodes and tensors.
  std::set<IdVector<ChoiceId, StateId>> lists_;
  // By choices: the states of each output, and of each input.
  std::unordered_map<const void*, std::pair<std::vector<States>, std::vector<States>>> lists_of_;
  std::map<std::vector<std::intptr_t>, ValueChoices> values_;  // by type and the addresses of states
  VariableId end_{0}, end_of_nodes_{0};
  bool large_ = false;
  bool part_ = false;  // whether it was made of another space
};

}  // namespace braid::split
