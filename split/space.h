// The choice of states for all tensors of a model on a mesh, as a problem of the solver (problem.h).
//
// A node has a variable with one choice per legal combination of its rule; on several axes, one per legal tuple of them. A tensor with one reader adds costs to the pair of
// its producer and its reader: those of the conversion between what one computes and the other takes. A tensor with several
// readers has a variable of its own: the state in which it is produced, and at most two into which it is converted, so that a
// conversion that several readers share is paid once. Constants have any state that can be cut from them, without a
// conversion. The program takes and returns whole tensors, unless it is asked to keep its caches in parts (caches.h): a past and
// its present then have one state, which is a variable.
//
// On several axes a tensor has at most one converted form where two would be too many; and where even that is too large
// (SplitSpace::large), choose_split chooses the states of one axis after another, each exactly with those of the others given, until
// none becomes cheaper. Tensors have no variables then, and only a relaxed problem remains, for bounds.
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

// What things cost, from whoever knows the machine. All in whole picoseconds and at least 0.
struct SplitCosts {
  // A node on each rank with that combination, on one axis.
  std::function<Cost(const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks)> node;
  // On several; required only for meshes with more than one.
  std::function<Cost(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh)>
      node_on_mesh;
  // The same in two steps, for who asks for many combinations of a node; may be empty. Nodes with equal combinations and equal keys cost
  // the same.
  std::function<int(const Graph& graph, const GraphNode& node)> key;
  std::function<Cost(int key, Combination axes, const Mesh& mesh)> of_key;
  StepCost step;
  // The size that an expression counts with, such as its upper bound.
  std::function<std::int64_t(const ir::Expr& size)> size;
};

// A node with the collectives that its local form has in it.
Cost cost_of(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
             const SplitCosts& costs);

struct ChosenNode {
  int node = -1;
  std::vector<const Strategy*> axes;
  Cost cost = 0;
  std::shared_ptr<const std::deque<Strategy>> strategies;  // of the space: whose own those are

  bool is_split() const;  // whether it computes a part on some axis
};
struct ChosenConversion {
  int value = -1;
  MeshSpec from, to;
  std::vector<ConversionStep> steps;
  Cost cost = 0;
  std::vector<std::string> readers;  // by their names in plans; "": the program's output
};
// A choice of a space, without what it says.
struct SpaceSolution {
  Solution solution;
  bool joint = true;  // over all axes at once
  // The cheapest choices that led to it, one after another: with costs between those of two searches that went the same way a third
  // one goes it too, for what a plan costs is linear in them. Empty: some were not proved to be the cheapest.
  std::vector<std::vector<int>> way;
};

struct SplitChoice : SpaceSolution {
  MeshPlan plan;
  std::vector<ChosenNode> nodes;
  std::vector<ChosenConversion> conversions;

  // Of the nodes and conversions, with other costs perhaps.
  Cost price(const Graph& graph, const SplitCosts& costs) const;
};

// What one reader of a tensor waits for: the conversion from what is produced to what the reader takes, which one or two variables
// decide.
struct Passage {
  int producer = -1;  // node variable; -1: the program is given the tensor
  int reader = -1;    // node variable; -1: the program returns it
  int value = -1;
  int from = -1;
  int to = -1;         // -1: `from` decides it alone
  bool given = false;  // then `from` is the reader
  bool free = false;   // its conversion is not in the relaxed problem
  // The space's own. States, per choice of `from`; one of what is given.
  const std::vector<int>* produced = nullptr;
  const std::vector<int>* taken =
      nullptr;  // per choice of `to`, or of `from` of what is given; one of what is returned
};

// The states of which each is the only one that some reader takes, other than `from`: the tensor is converted into all of them, whatever
// is chosen. Per reader: the state that it takes with each of its choices.
std::vector<int> required_states(std::span<const std::vector<int>* const> taken, int from);

// How the program takes and returns caches.
enum class Caches : std::uint8_t { whole, in_parts };

struct SpaceOptions {
  Caches caches = Caches::whole;
  // Which legal combinations of a node are looked at; if it is none of them, all are, and the node is in unmet().
  std::function<bool(int node, Combination axes)> keeps;
  // States of graph inputs, by value, and of graph outputs, by index, that are not whole.
  std::map<int, MeshSpec> given, returned;
  BlockCandidates blocks;  // on each axis, beside those that the graph suggests
  std::size_t cells =
      std::size_t{1} << 22;  // of all tables together; on several axes, a space of more is large
};

// All plans of a graph on a mesh, independent of costs.
class SplitSpace {
 public:
  // `graph` must outlive this.
  SplitSpace(const Graph& graph, const Mesh& mesh, SpaceOptions options = {});
  SplitSpace(const Graph& graph, int ranks, Caches caches = Caches::whole)
      : SplitSpace(graph, Mesh::line(ranks), SpaceOptions{caches, {}, {}, {}, {}}) {}
  // The plans of another one, which must outlive this, in which one axis is chosen and the nodes are on the others as in that choice;
  // an empty one: whole.
  SplitSpace(const SplitSpace& whole, int open_axis, const std::vector<int>& choice);
  // The plans of another one, which must outlive this, in which each node cuts the same on all axes, as on a line of so many ranks.
  static SplitSpace alike(const SplitSpace& whole) { return {whole, kAllAlike, {}}; }
  SplitSpace(const SplitSpace&) = delete;

  // `relaxed`: no plan with at most two converted forms of a tensor costs less than the choice that it is there. A conversion that
  // several readers may share is paid in parts there, by each reader one, where not all such forms can be looked at; of a large space
  // conversions whose tables have more than so many cells together are left out. It has no other problem.
  Problem problem(const SplitCosts& costs, bool relaxed = false, std::size_t cells = kMostRelaxed) const;
  // What takes a while, and what is often as good.
  static constexpr std::size_t kMostRelaxed = std::size_t{1} << 18, kFewRelaxed = std::size_t{1} << 16;
  // Whether a relaxed problem with no more cells leaves out something.
  bool leaves_out(std::size_t cells) const;
  // `restrict` adds limits and forbids choices before the problem is solved. Without nodes and conversions if the solution is
  // infeasible, which it can only be because of the options, or if none was found that keeps what `restrict` says.
  SplitChoice choose(const SplitCosts& costs, const SolveOptions& options = {},
                     const std::function<void(Problem&)>& restrict = nullptr) const;
  // The same without what it says.
  SpaceSolution solved(const SplitCosts& costs, const SolveOptions& options = {},
                       const std::function<void(Problem&)>& restrict = nullptr) const;
  // What a solution says, if it is feasible; of a large space, a choice of its nodes and caches.
  SplitChoice described(const SplitCosts& costs, SpaceSolution solution) const;
  const Mesh& mesh() const { return mesh_; }
  int ranks() const { return mesh_.ranks(); }
  // Whether it has too many choices to be searched as a whole; then nothing can be chosen.
  bool large() const { return large_; }
  const std::vector<int>& unmet() const { return unmet_; }

  // Of a problem of this space, or of its relaxed one with so many cells.
  std::vector<Passage> passages(bool relaxed = false, std::size_t cells = kMostRelaxed) const;
  int variables() const { return variables_; }
  // The graph's node of a variable; -1 if it is none. Variables of nodes come first, in the order of the graph.
  int node_of(int variable) const {
    return variable < static_cast<int>(nodes_.size()) ? nodes_[static_cast<std::size_t>(variable)] : -1;
  }
  // The variable of a cache, by its value among the inputs or its index among the outputs; -1: it has none.
  int variable_of_cache_input(int value) const { return found_in(cache_inputs_, value); }
  int variable_of_cache_output(int output) const { return found_in(cache_outputs_, output); }
  // The choice of a space that was made of this one, as one of this; of nodes and caches only.
  std::vector<int> choice_of(const SplitSpace& part, const std::vector<int>& choice) const;
  // Of the variable of a node or of a cache.
  int choices_of(int variable) const { return static_cast<int>(choices(variable).size()); }
  // Variables with one address have the same choices.
  const void* address_of_choices(int variable) const { return choices_[static_cast<std::size_t>(variable)]; }
  // Of the variable of a node, by axis.
  Combination combination(int variable, int choice) const { return this->choice(variable, choice).axes; }
  // What the nodes of no plan cost less than, without any conversions.
  Cost least_of_nodes(const SplitCosts& costs) const;
  // Whether a choice of all variables splits something into padded parts.
  bool pads(const std::vector<int>& choice) const;
  // Of a problem of this space.
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
  static constexpr int kAllAlike = -1;  // instead of an open axis
  struct Choice {
    std::vector<const Strategy*> axes;
    std::vector<int> inputs, outputs;  // states
    bool padded = false;
  };
  // Equal nodes share them, and so do the readers and producers of equal tensors their states. A part of a space has choices of the whole.
  using Choices = const std::vector<const Choice*>*;
  using States = const std::vector<int>*;
  struct Reader {
    int variable = -1;       // -1: the program's output
    int input = 0;           // of the output: its index
    States taken = nullptr;  // per choice; one of what is returned
  };
  struct ValueChoice {
    int produced = 0;
    std::vector<int> converted;
  };
  // The choices of a tensor that several nodes read.
  struct ValueChoices {
    std::vector<ValueChoice> all;
    std::vector<int> produced;  // of all
    bool complete = false;      // whether these are all with at most two forms
    bool too_many = false;      // then there are none
  };
  // A tensor that is computed or given at run time.
  struct Flow {
    int value = -1;
    int producer = -1;  // variable; -1: given to the program
    int output = 0;
    std::size_t first_reader = 0, readers = 0;  // of all
    States produced = nullptr;                  // per choice of the producer; one of what is given
    int variable = -1;                          // its own, if several read it
    const ValueChoices* choices = nullptr;      // of its variable
    std::size_t cells = 0;  // of a large space: of its tables in the relaxed problem, and all smaller ones
  };
  class Tables;
  Problem problem(Tables& tables, const SplitCosts& costs, bool relaxed, std::size_t cells) const;

  // What the strategies of a tuple make of a tensor.
  struct Cut {
    int state = -1;  // -1: it cannot be cut so
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
  void add_variable(Flow& flow);  // if it has one
  // Tensors with equal ones have the same choices.
  std::vector<std::intptr_t> address(const Flow& flow) const;
  ValueChoices value_choices(const Flow& flow) const;
  // Variables of pairs of a past and a present: one that takes what it is given, as a node would.
  void add_caches();
  void measure();
  std::vector<int> order() const;

  const Graph& graph_;
  Mesh mesh_;
  SpaceOptions options_;
  // All that occur; the first one is replicated.
  struct StateTable {
    std::vector<MeshSpec> specs;
    std::unordered_map<MeshSpec, int, MeshSpecHash> index;
    std::shared_ptr<const StateCodes> codes;  // when all are known
  };
  std::shared_ptr<StateTable> states_ = std::make_shared<StateTable>();  // parts of a space have the same
  std::map<std::vector<std::int64_t>, std::unordered_map<MeshSpec, Cut, MeshSpecHash>>
      cuts_;  // by the sizes of the tensor
  std::shared_ptr<std::deque<Strategy>> strategies_ =
      std::make_shared<std::deque<Strategy>>();  // of parts, too
  std::map<int, int> cache_inputs_;              // value: its variable
  std::map<int, int> cache_outputs_;             // index of a graph output: the variable of its past
  std::vector<int> nodes_;                       // per node variable: the graph's node; -1: a cache
  std::vector<int> variable_of_;                 // per node of the graph; -1: none
  std::vector<Choices> choices_;                 // per node variable
  std::vector<States> kept_;  // per node variable of a part: its choices in the whole space; null: all
  std::deque<Choice> own_choices_;
  std::deque<std::vector<const Choice*>> choice_lists_;
  std::map<int, int> given_, returned_;  // options_ as states
  std::vector<Flow> flows_;
  std::vector<Reader> readers_;  // of all flows
  std::vector<int> unmet_;
  // What equal nodes and tensors share.
  std::set<std::vector<int>> lists_;
  std::unordered_map<const void*, std::pair<std::vector<States>, std::vector<States>>>
      lists_of_;                                               // by choices: of each output and each input
  std::map<std::vector<std::intptr_t>, ValueChoices> values_;  // by type, and addresses of states
  int variables_ = 0;
  bool large_ = false;
  bool part_ = false;  // of another space
};

// What the choices and the conversions of a space cost; each cost is asked once.
class SpacePrices {
 public:
  SpacePrices(const SplitSpace& space, SplitCosts costs);  // the space must outlive it
  SpacePrices(SpacePrices&&) noexcept;
  ~SpacePrices();

  // As of the space.
  Problem problem(bool relaxed = false, std::size_t cells = SplitSpace::kMostRelaxed);
  // What a passage costs where it is possible, and nothing where a problem forbids it: with these choices of passage.from and
  // passage.to.
  Cost of(const Passage& passage, int from, int to);
  // costs[i * (choices of `to`) + j]; without `to` one per choice of `from`.
  const CostTable& table(const Passage& passage);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The choice on the space's mesh: joint over its axes, or, if it is large, one axis after another.
SplitChoice choose_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options = {});
SpaceSolution solved_split(const SplitSpace& space, const SplitCosts& costs,
                           const SolveOptions& options = {});
// Adds limits to the problem of a space that was made of another one.
using RestrictPart = std::function<void(const SplitSpace&, Problem&)>;
// One axis after another, from the last one on, until none becomes cheaper. Has no bound. The first choice is `from`, or everything whole if
// that is empty; with `restrict` it must keep the limits, and is the solution, without a cost, where no other one is found that does.
SpaceSolution solved_in_turn(const SplitSpace& space, const SplitCosts& costs, SolveOptions options = {},
                             std::vector<int> from = {}, const RestrictPart& restrict = nullptr);

}  // namespace braid::split
