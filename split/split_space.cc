// Which choices the nodes and tensors of a graph have on a mesh.
#include "split/split_space.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/error.h"
#include "split/caches.h"
#include "split/conversion_costs.h"

namespace braid::split {

namespace {

// Whether a combination takes pinned values whole, and constants only in states that can be cut from them.
bool allowed(const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (!node.inputs[k].valid() || strategy.inputs[k].is_replicated()) continue;
    const GraphValue& value = graph.values[node.inputs[k]];
    if (value.pinned) return false;
    if (value.constant && !can_shard(value.dtype, strategy.inputs[k])) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (!node.outputs[k].valid() || strategy.outputs[k].is_replicated()) continue;
    if (graph.values[node.outputs[k]].pinned) return false;
  }
  return true;
}

// More choices of one tensor are not searched as a whole.
constexpr std::size_t kMostPairs = 1500, kMostChoices = 5000;

// Whether one letter can be cut on all axes that split it, in blocks that are the same on each.
bool letters_fit(const Factors& factors, Combination axes, const Mesh& mesh) {
  for (std::size_t k = 1; k < axes.size(); ++k) {
    if (!axes[k]->letter.valid()) continue;
    std::int64_t parts = mesh.axes[k].size;
    for (std::size_t j = 0; j < k; ++j) {
      if (axes[j]->letter != axes[k]->letter) continue;
      if (axes[j]->blocks != axes[k]->blocks) return false;
      parts *= mesh.axes[j].size;
    }
    if (parts == mesh.axes[k].size) continue;  // on this axis alone, where it may be padded
    const std::int64_t size = factors.letters[axes[k]->letter].size;
    const Blocks blocks = axes[k]->blocks.empty() ? Blocks{size} : axes[k]->blocks;
    if (std::any_of(blocks.begin(), blocks.end(), [&](std::int64_t b) { return b % parts != 0; }))
      return false;
  }
  return true;
}

// Whether two axes cut a node the same, but for the blocks.
bool cut_alike(const Strategy& one, const Strategy& other) {
  const auto alike = [](const Spec& a, const Spec& b) {
    return a.kind == b.kind && a.dim == b.dim && a.reduce == b.reduce;
  };
  return one.letter == other.letter && std::ranges::equal(one.inputs, other.inputs, alike) &&
         std::ranges::equal(one.outputs, other.outputs, alike);
}

std::vector<std::int64_t> static_sizes(const GraphValue& value) {
  std::vector<std::int64_t> sizes;
  for (const ir::Expr& size : value.sizes) sizes.push_back(static_size(size).value_or(-1));
  return sizes;
}

// All that the choices of a node depend on: its kind, and the blocks that the candidates name for its values.
class Likeness {
 public:
  Likeness(const Graph& graph, const std::vector<const BlockCandidates*>& candidates)
      : blocks_(graph.values.ids(), 0) {
    std::map<ValueId, std::vector<std::int64_t>> texts;
    for (std::size_t axis = 0; axis < candidates.size(); ++axis) {
      for (const auto& [place, lists] : *candidates[axis]) {
        std::vector<std::int64_t>& text = texts[place.first];
        for (const Blocks& list : lists) {
          text.push_back(axis);
          text.push_back(place.second);
          text.push_back(list.size());
          text.insert(text.end(), list.begin(), list.end());
        }
      }
    }
    std::map<std::vector<std::int64_t>, int> known;
    for (auto& [value, text] : texts)
      blocks_[value] = known.try_emplace(std::move(text), count_of(known) + 1).first->second;
  }

  std::vector<int> of(const GraphNode& node) const {
    std::vector<int> key;
    key.reserve(1 + node.inputs.size() + node.outputs.size());
    key.push_back(node.kind.index);
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs})
      for (const ValueId v : *values) key.push_back(v.valid() ? blocks_[v] : 0);
    return key;
  }

 private:
  IdVector<ValueId, int> blocks_;  // which list of them; 0: none
};

}  // namespace

std::vector<StateId> required_states(std::span<const States> taken, StateId from) {
  std::vector<StateId> required;
  for (const States states : taken) {
    const StateId first = states->front();
    const bool only = std::ranges::all_of(*states, [&](StateId state) { return state == first; });
    if (only && first != from && std::ranges::find(required, first) == required.end())
      required.push_back(first);
  }
  return required;
}

SplitSpace::SplitSpace(const Graph& graph, const Mesh& mesh, SpaceOptions options)
    : graph_(graph), mesh_(mesh), options_(std::move(options)) {
  state(MeshSpec(mesh.axes.size()));
  for (const auto& [value, spec] : options_.given) given_[value] = state(spec);
  for (const auto& [output, spec] : options_.returned) returned_[output] = state(spec);
  std::vector<const BlockCandidates*> candidates;
  static const BlockCandidates none;
  std::deque<BlockCandidates> with_given;
  for (const MeshAxis& axis : mesh.axes) {
    candidates.push_back(axis.size == 1 ? &none : &block_candidates(graph, axis.size));
    if (options_.blocks.empty()) continue;
    BlockCandidates& own = with_given.emplace_back(*candidates.back());
    for (const auto& [place, blocks] : options_.blocks) own[place].insert(blocks.begin(), blocks.end());
    candidates.back() = &own;
  }
  variable_of_.assign(graph.nodes.ids(), {});
  const Likeness likeness(graph, candidates);
  std::map<std::vector<int>, Choices> known;
  for (const NodeId n : graph.nodes.ids()) {
    if (graph.nodes[n].compile_time) continue;
    variable_of_[n] = end_++;
    Choices& all = known[likeness.of(graph.nodes[n])];
    if (all == nullptr) all = make_choices(n, candidates);
    add_choices(n, all);
  }
  end_of_nodes_ = end_;
  if (options_.caches == Caches::in_parts) add_caches();
  add_connections();
  add_flows();
  states_->codes = std::make_shared<const StateCodes>(states_->specs);
}

// Adds the choices of a node that the options keep.
void SplitSpace::add_choices(NodeId node, Choices all) {
  if (options_.keeps) {
    IdVector<ChoiceId, const Choice*> kept;
    for (const Choice* choice : *all)
      if (options_.keeps(node, choice->axes)) kept.push_back(choice);
    if (kept.empty()) unmet_.push_back(node);
    if (!kept.empty() && kept.size() < all->size()) all = listed(std::move(kept));
  }
  nodes_.push_back(node);
  choices_.push_back(all);
  kept_.push_back(nullptr);
}

SplitSpace::Choices SplitSpace::listed(IdVector<ChoiceId, const Choice*> choices) {
  return &choice_lists_.emplace_back(std::move(choices));
}

SplitSpace::SplitSpace(const SplitSpace& whole, int open_axis, const Assignment& choice)
    : graph_(whole.graph_),
      mesh_(whole.mesh_),
      options_(whole.options_),
      states_(whole.states_),
      strategies_(whole.strategies_),
      variable_of_(whole.variable_of_),
      given_(whole.given_),
      returned_(whole.returned_),
      flows_(whole.flows_),
      readers_(whole.readers_) {
  part_ = true;
  options_.cells = std::max(options_.cells, SpaceOptions().cells);
  const auto is_whole = [](const Strategy& s) {
    return std::ranges::all_of(s.inputs, &Spec::is_replicated) &&
           std::ranges::all_of(s.outputs, &Spec::is_replicated);
  };
  struct Part {
    Choices choices = nullptr;
    Kept kept = nullptr;  // in the whole space; null: all
    bool unmet = false;
  };
  std::map<std::pair<const void*, ChoiceId>, Part> known;  // by the node's choices and the one that it has
  end_ = end_of_nodes_ = whole.end_of_nodes_;
  for (const VariableId v : node_variables()) {
    const Choices all = whole.choices_[v];
    const ChoiceId own = choice.empty() ? ChoiceId{} : choice[v];
    const auto [entry, fresh] = known.try_emplace({all, own});
    Part& part = entry->second;
    if (fresh) {
      IdVector<ChoiceId, const Choice*> choices;
      IdVector<ChoiceId, ChoiceId> kept;
      for (const ChoiceId c : all->ids()) {
        const Combination axes = (*all)[c]->axes;
        bool fits = true;
        for (int k = 0; k < mesh_.size() && fits; ++k) {
          if (k == open_axis) continue;
          // Strategies of a node and an axis are distinct.
          fits = open_axis == kAllAlike ? cut_alike(*axes[k], *axes[0])
                 : own.valid()          ? axes[k] == (*all)[own]->axes[k]
                                        : is_whole(*axes[k]);
        }
        if (!fits) continue;
        choices.push_back((*all)[c]);
        kept.push_back(c);
      }
      part.unmet = choices.empty();
      part.choices = part.unmet ? all : listed(std::move(choices));
      if (!part.unmet) part.kept = &kept_lists_.emplace_back(std::move(kept));
    }
    if (part.unmet) unmet_.push_back(whole.node_of(v));
    nodes_.push_back(whole.node_of(v));
    choices_.push_back(part.choices);
    kept_.push_back(part.kept);
  }
  if (options_.caches == Caches::in_parts) add_caches();
  for (Flow& flow : flows_) {
    flow.variable = {};
    flow.choices = nullptr;
    flow.cells = 0;
  }
  add_flows();
}

Assignment SplitSpace::choice_of(const SplitSpace& part, const Assignment& choice) const {
  Assignment own;
  for (const VariableId v : choices_.ids()) {
    if (nodes_[v].valid()) {
      own.push_back(part.kept_[v] ? (*part.kept_[v])[choice[v]] : choice[v]);
      continue;
    }
    const Choice& wanted = part.choice(v, choice[v]);  // of a cache: one state
    const auto found = std::ranges::find(
        choices_of(v), wanted.outputs, [&](ChoiceId c) -> const auto& { return this->choice(v, c).outputs; });
    ir::internal_check(found != choices_of(v).end(),
                       "a part of a search space has a choice that the whole lacks");
    own.push_back(*found);
  }
  return own;
}

StateId SplitSpace::state(const MeshSpec& spec) {
  const auto [found, added] = states_->index.try_emplace(spec, states_->specs.end_id());
  if (added) states_->specs.push_back(spec);
  return found->second;
}
// Layers are equal, so that the same is asked again and again.
SplitSpace::Cut SplitSpace::cut(ValueId v, const std::vector<std::int64_t>& sizes, const MeshSpec& whole) {
  if (!v.valid()) return {state(whole), false};
  const GraphValue& value = graph_.values[v];
  const bool unread = value.readers.empty() && value.rank() == 0;  // its sizes are unknown
  if (mesh_.size() == 1 || unread || is_replicated(whole))
    return {state(whole), is_padded(whole, sizes, mesh_)};
  const auto [known, fresh] = cuts_[sizes].try_emplace(whole);
  if (fresh) {
    const std::optional<MeshSpec> own = cut_in_turn(whole, sizes, mesh_);
    known->second = {own ? state(*own) : StateId{}, is_padded(whole, sizes, mesh_)};
  }
  return known->second;
}
// A tensor of a node: its states by the numbers of its states on the axes. Most tuples of strategies differ
// only in other tensors.
struct SplitSpace::NodeTensor {
  ValueId value;
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::size_t>> number;  // per axis and strategy
  std::vector<std::vector<const Spec*>> specs;   // per axis and number
  std::vector<std::optional<Cut>> cuts;          // row-major

  // `strategies`: per axis; `k`: its place among the outputs, or the inputs.
  NodeTensor(const Graph& graph, ValueId of, const std::vector<std::vector<const Strategy*>>& strategies,
             bool output, std::size_t k)
      : value(of) {
    if (value.valid()) sizes = static_sizes(graph.values[value]);
    std::size_t cells = 1;
    for (const std::vector<const Strategy*>& of_axis : strategies) {
      std::vector<std::size_t>& own = number.emplace_back();
      std::vector<const Spec*>& distinct = specs.emplace_back();
      for (const Strategy* s : of_axis) {
        const Spec& spec = output ? s->outputs[k] : s->inputs[k];
        const auto known = std::ranges::find_if(distinct, [&](const Spec* p) { return *p == spec; });
        own.push_back(known - distinct.begin());
        if (known == distinct.end()) distinct.push_back(&spec);
      }
      cells *= distinct.size();
    }
    cuts.resize(cells);
  }

  std::optional<Cut>& cut(const std::vector<std::size_t>& tuple) {
    std::size_t cell = 0;
    for (std::size_t a = 0; a < tuple.size(); ++a) cell = cell * specs[a].size() + number[a][tuple[a]];
    return cuts[cell];
  }
  MeshSpec whole(const std::vector<std::size_t>& tuple) const {
    MeshSpec spec;
    spec.reserve(tuple.size());
    for (std::size_t a = 0; a < tuple.size(); ++a) spec.push_back(*specs[a][number[a][tuple[a]]]);
    return spec;
  }
};

// The strategies of a node on an axis that take or leave different states.
std::vector<const Strategy*> SplitSpace::distinct_strategies(const GraphNode& node, int ranks,
                                                             const BlockCandidates& candidates) {
  std::vector<const Strategy*> distinct;
  for (Strategy& strategy : strategies(graph_, node, ranks, candidates)) {
    if (!allowed(graph_, node, strategy)) continue;
    const bool known = std::ranges::any_of(distinct, [&](const Strategy* other) {
      return other->inputs == strategy.inputs && other->outputs == strategy.outputs;
    });
    if (known) continue;
    distinct.push_back(&strategies_->emplace_back(std::move(strategy)));
    if (ranks == 1) break;  // whole, which comes first
  }
  ir::internal_check(!distinct.empty(), "node '{}' has no legal combination", plan_name(graph_, node));
  return distinct;
}

// The legal tuples of strategies, one per axis.
SplitSpace::Choices SplitSpace::make_choices(NodeId n,
                                             const std::vector<const BlockCandidates*>& candidates) {
  const GraphNode& node = graph_.nodes[n];
  std::vector<std::vector<const Strategy*>> of_axis;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k)
    of_axis.push_back(distinct_strategies(node, mesh_.axes[k].size, *candidates[k]));
  std::vector<NodeTensor> tensors;
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    tensors.emplace_back(graph_, node.inputs[k], of_axis, false, k);
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    tensors.emplace_back(graph_, node.outputs[k], of_axis, true, k);
  IdVector<ChoiceId, const Choice*> all;
  Choice choice;  // of the tuple, most of which cannot be cut
  std::vector<std::size_t> tuple;
  const auto extend = [&](const auto& self) -> void {
    if (tuple.size() == of_axis.size()) {
      if (is_legal(node, tuple, tensors, choice)) all.push_back(&own_choices_.emplace_back(choice));
      return;
    }
    const std::vector<const Strategy*>& of = of_axis[tuple.size()];
    for (std::size_t s = 0; s < of.size(); ++s) {
      choice.axes.push_back(of[s]);
      tuple.push_back(s);
      self(self);
      choice.axes.pop_back();
      tuple.pop_back();
    }
  };
  extend(extend);
  return listed(std::move(all));
}

// Whether a tuple can be cut; adds states to the choice.
bool SplitSpace::is_legal(const GraphNode& node, const std::vector<std::size_t>& tuple,
                          std::vector<NodeTensor>& tensors, Choice& choice) {
  if (tuple.size() > 1 && !letters_fit(node.factors, choice.axes, mesh_)) return false;
  choice.inputs.clear();
  choice.outputs.clear();
  choice.padded = false;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::optional<Cut>& cut = tensors[t].cut(tuple);
    if (!cut) cut = this->cut(tensors[t].value, tensors[t].sizes, tensors[t].whole(tuple));
    if (!cut->state.valid()) return false;
    choice.padded = choice.padded || cut->padded;
    (t < node.inputs.size() ? choice.inputs : choice.outputs).push_back(cut->state);
  }
  if (tuple.size() == 1 || !choice.padded) return true;
  // The collectives of a local form have no padded states.
  for (std::size_t k = 0; k < tuple.size(); ++k) {
    const Strategy& own = *choice.axes[k];
    if (own.letter.valid() && !node.operation->inner(graph_, node, own, mesh_.axes[k].size).empty())
      return false;
  }
  return true;
}

void SplitSpace::add_caches() {
  for (const Cache& cache : caches_of(graph_)) {
    // The states that some reader of the cache takes, those in which it is produced if only the next step
    // reads it, and whole.
    std::set<StateId> wanted = {kReplicated};
    const auto want = [&](StateId state) {
      if (std::ranges::none_of(spec(state), &Spec::is_pending)) wanted.insert(state);
    };
    const ValueId value = cache.input.valid() ? cache.input : graph_.outputs[cache.output];
    bool read = false;
    for (const GraphUse& use : graph_.values[value].readers) {
      if (!use.node.valid() || !variable_of_[use.node].valid()) continue;
      read = true;
      for (const Choice* choice : choices(variable_of_[use.node])) want(choice->inputs[use.input]);
    }
    if (const NodeId producer = graph_.values[value].producer;
        !read && producer.valid() && variable_of_[producer].valid()) {
      const int output = graph_.nodes[producer].output_of(value);
      for (const Choice* choice : choices(variable_of_[producer])) want(choice->outputs[output]);
    }
    IdVector<ChoiceId, const Choice*> own;
    for (const StateId state : wanted)
      own.push_back(&own_choices_.emplace_back(Choice{{}, {state}, {state}, false}));
    cache_outputs_[cache.output] = end_++;
    if (cache.input.valid()) cache_inputs_[cache.input] = cache_outputs_[cache.output];
    nodes_.push_back({});
    choices_.push_back(listed(std::move(own)));
    kept_.push_back(nullptr);
  }
}
States SplitSpace::shared(IdVector<ChoiceId, StateId> states) {
  return &*lists_.insert(std::move(states)).first;
}

// The state of one output or input for each choice of the variable.
States SplitSpace::states_of(VariableId variable, bool of_outputs, int number) {
  auto& [outputs, inputs] = lists_of_[choices_[variable]];
  std::vector<States>& lists = of_outputs ? outputs : inputs;
  if (count_of(lists) <= number) lists.resize(number + 1);
  States& known = lists[number];
  if (known != nullptr) return known;
  IdVector<ChoiceId, StateId> states;
  states.reserve(choices(variable).size());
  for (const Choice* choice : choices(variable))
    states.push_back((of_outputs ? choice->outputs : choice->inputs)[number]);
  return known = shared(std::move(states));
}

States SplitSpace::produced_by(const Flow& flow) {
  if (flow.producer.valid()) return states_of(flow.producer, true, flow.output);
  const auto found = given_.find(flow.value);
  return shared({found == given_.end() ? kReplicated : found->second});
}

States SplitSpace::taken_by(const Reader& reader) {
  if (reader.variable.valid()) return states_of(reader.variable, false, reader.input);
  const auto found = returned_.find(reader.input);
  return shared({found == returned_.end() ? kReplicated : found->second});
}

// Connects producers and readers, without states.
void SplitSpace::add_connections() {
  for (const ValueId v : graph_.values.ids()) {
    const GraphValue& value = graph_.values[v];
    if (value.constant) continue;
    Flow flow;
    flow.value = v;
    if (value.producer.valid()) {
      flow.producer = variable_of_[value.producer];
      // Results known at compile time are whole everywhere, and so are their readers' inputs.
      if (!flow.producer.valid()) continue;
      flow.output = graph_.nodes[value.producer].output_of(v);
    } else if (!value.graph_input) {
      continue;
    } else if (const auto cache = cache_inputs_.find(flow.value); cache != cache_inputs_.end()) {
      flow.producer = cache->second;
    }
    flow.first_reader = readers_.size();
    for (const GraphUse& use : value.readers) {
      if (!use.node.valid()) {
        const auto cache = cache_outputs_.find(use.input);
        readers_.push_back(cache == cache_outputs_.end() ? Reader{{}, use.input} : Reader{cache->second, 0});
      } else if (variable_of_[use.node].valid()) {
        readers_.push_back({variable_of_[use.node], use.input});
      }
    }
    flow.readers = readers_.size() - flow.first_reader;
    if (flow.readers > 0) flows_.push_back(flow);
  }
}

// Adds states and variables to the connections.
void SplitSpace::add_flows() {
  const VariableId owners = end_;
  for (Reader& reader : readers_) reader.taken = taken_by(reader);
  for (Flow& flow : flows_) {
    flow.produced = produced_by(flow);
    if (!large_) add_variable(flow);
  }
  measure();
  if (!large_) return;
  end_ = owners;
  for (Flow& flow : flows_) {
    flow.variable = {};
    flow.choices = nullptr;
  }
  // The smallest tables come first. Equal layers share theirs.
  struct Alike {
    std::size_t cells = 0;
    std::vector<Flow*> flows;
    std::vector<std::vector<MeshSpec>> states;  // made when they decide
  };
  std::vector<Alike> all_alike;
  std::map<std::vector<std::intptr_t>, std::size_t> known;
  for (Flow& flow : flows_) {
    const auto [entry, fresh] = known.try_emplace(address(flow), all_alike.size());
    if (fresh) all_alike.emplace_back();
    Alike& alike = all_alike[entry->second];
    alike.flows.push_back(&flow);
    if (!fresh) continue;
    for (const Reader& reader : readers(flow)) alike.cells += reader.taken->size() * flow.produced->size();
  }
  // Ties are broken by content, so the result depends neither on addresses nor on node order.
  const auto states = [&](Alike& alike) -> const std::vector<std::vector<MeshSpec>>& {
    if (!alike.states.empty()) return alike.states;
    const Flow& flow = *alike.flows[0];
    const auto add = [&](const IdVector<ChoiceId, StateId>& list) {
      std::vector<MeshSpec>& specs = alike.states.emplace_back();
      for (const StateId state : list) specs.push_back(spec(state));
    };
    add(*flow.produced);
    for (const Reader& reader : readers(flow)) add(*reader.taken);
    std::sort(alike.states.begin() + 1, alike.states.end());
    return alike.states;
  };
  std::vector<Alike*> order;
  for (Alike& alike : all_alike) order.push_back(&alike);
  std::stable_sort(order.begin(), order.end(), [&](Alike* a, Alike* b) {
    if (a->cells != b->cells) return a->cells < b->cells;
    const auto dtype = [&](const Alike& alike) { return graph_.values[alike.flows[0]->value].dtype; };
    return dtype(*a) != dtype(*b) ? dtype(*a) < dtype(*b) : states(*a) < states(*b);
  });
  std::size_t sum = 0;
  for (const Alike* alike : order) {
    sum += alike->cells;
    for (Flow* flow : alike->flows) flow->cells = sum;
  }
}

bool SplitSpace::leaves_out(std::size_t cells) const {
  return std::ranges::any_of(flows_, [&](const Flow& flow) { return flow.cells > cells; });
}

// Whether every axis can be converted, each on its own.
bool SplitSpace::convertible(ValueId value, StateId from, StateId to) const {
  const ir::DType dtype = graph_.values[value].dtype;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k) {
    const int ranks = mesh_.axes[k].size;
    if (!conversion_steps(spec(from)[k], spec(to)[k], dtype, ranks, ranks)) return false;
  }
  return true;
}
SplitSpace::ValueChoices SplitSpace::value_choices(const Flow& flow) const {
  // Ordered by content, not by when they were first seen.
  const auto by_spec = [this](StateId a, StateId b) { return spec(a) < spec(b); };
  std::set<StateId, decltype(by_spec)> produced(by_spec), wanted(by_spec);
  produced.insert(flow.produced->begin(), flow.produced->end());
  std::vector<States> taken;
  for (const Reader& reader : readers(flow)) {
    wanted.insert(reader.taken->begin(), reader.taken->end());
    taken.push_back(reader.taken);
  }
  ValueChoices result;
  if (produced.size() * (wanted.size() + 1) > kMostChoices) {
    result.too_many = true;
    return result;
  }
  const bool pairs = mesh_.size() == 1 || produced.size() * wanted.size() * wanted.size() / 2 <= kMostPairs;
  result.complete = pairs;
  for (const StateId from : produced) {
    std::vector<StateId> reachable;
    for (const StateId to : wanted) {
      if (to != from && convertible(flow.value, from, to)) reachable.push_back(to);
    }
    // Readers that take one state only, as fixed lines ask for, may need more than two.
    constexpr std::size_t kMostConverted = 2;
    if (std::vector<StateId> required = required_states(taken, from); required.size() > kMostConverted) {
      result.all.push_back({from, std::move(required)});
      continue;
    }
    result.all.push_back({from, {}});
    for (std::size_t i = 0; i < reachable.size(); ++i) {
      result.all.push_back({from, {reachable[i]}});
      for (std::size_t j = i + 1; pairs && j < reachable.size(); ++j)
        result.all.push_back({from, {reachable[i], reachable[j]}});
    }
    // States that are given may be any number.
    if ((options_.keeps || part_) && reachable.size() > 2) result.all.push_back({from, reachable});
  }
  for (const ValueChoice& choice : result.all) result.produced.push_back(choice.produced);
  return result;
}

std::vector<std::intptr_t> SplitSpace::address(const Flow& flow) const {
  std::vector<std::intptr_t> all;
  all.reserve(2 + flow.readers);
  all.push_back(static_cast<std::intptr_t>(graph_.values[flow.value].dtype));
  all.push_back(reinterpret_cast<std::intptr_t>(flow.produced));
  for (const Reader& reader : readers(flow)) all.push_back(reinterpret_cast<std::intptr_t>(reader.taken));
  return all;
}

void SplitSpace::add_variable(Flow& flow) {
  if (flow.readers < 2) return;
  const auto [known, fresh] = values_.try_emplace(address(flow));
  if (fresh) known->second = value_choices(flow);
  if (known->second.too_many) {
    large_ = true;
    return;
  }
  flow.choices = &known->second;
  flow.variable = end_++;
}

void SplitSpace::measure() {
  if (mesh_.size() == 1 || large_) return;
  std::size_t cells = 0;
  for (const Flow& flow : flows_) {
    const std::size_t produced = flow.variable.valid()   ? flow.choices->all.size()
                                 : flow.producer.valid() ? choices(flow.producer).size()
                                                         : 1;
    if (flow.variable.valid() && flow.producer.valid()) cells += produced * choices(flow.producer).size();
    for (const Reader& reader : readers(flow))
      cells += produced * (reader.variable.valid() ? choices(reader.variable).size() : 1);
  }
  large_ = cells > options_.cells;
}
// Tensors follow their producers. Caches and given tensors come before the node that reads them first.
std::vector<VariableId> SplitSpace::order() const {
  const auto is_node = [&](VariableId variable) { return variable.valid() && variable < end_of_nodes_; };
  // The first node that reads each root, if no node produces it.
  IdVector<VariableId, VariableId> reader(variables());
  IdVector<VariableId, std::vector<VariableId>> behind(variables());
  std::vector<VariableId> roots;
  for (const VariableId v : choices_.ids()) roots.push_back(v);
  for (const Flow& flow : flows_) {
    const VariableId root = flow.producer.valid() ? flow.producer : flow.variable;
    if (!root.valid()) continue;
    if (flow.variable.valid()) (flow.producer.valid() ? behind[root] : roots).push_back(flow.variable);
    for (const Reader& own : readers(flow)) {
      VariableId& known = reader[root];
      if (is_node(own.variable) && (!known.valid() || own.variable < known)) known = own.variable;
    }
  }
  // By the node before which they stand; of one node, it comes last.
  std::ranges::stable_sort(roots, {},
                           [&](VariableId v) { return std::pair(is_node(v) ? v : reader[v], is_node(v)); });
  std::vector<VariableId> all;
  for (const VariableId root : roots) {
    all.push_back(root);
    all.insert(all.end(), behind[root].begin(), behind[root].end());
  }
  return all;
}

}  // namespace braid::split
