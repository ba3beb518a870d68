// Which choices the nodes and tensors of a graph have on a mesh (space.h).
#include "split/space.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/error.h"
#include "split/caches.h"
#include "split/conversion_costs.h"

namespace braid::split {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Whether a combination takes pinned values whole, and constants only in states that can be cut from them.
bool allowed(const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0 || strategy.inputs[k].is_replicated()) continue;
    const GraphValue& value = graph.values[at(node.inputs[k])];
    if (value.pinned) return false;
    if (value.constant && !can_shard(value.dtype, strategy.inputs[k])) return false;
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] < 0 || strategy.outputs[k].is_replicated()) continue;
    if (graph.values[at(node.outputs[k])].pinned) return false;
  }
  return true;
}

constexpr int kReplicated = 0;

// More choices of one tensor are not searched as a whole.
constexpr std::size_t kMostPairs = 1500, kMostChoices = 5000;

// Whether one letter can be cut on all axes that split it, in blocks that are the same on each.
bool letters_fit(const Factors& factors, Combination axes, const Mesh& mesh) {
  for (std::size_t k = 1; k < axes.size(); ++k) {
    if (axes[k]->letter < 0) continue;
    std::int64_t parts = mesh.axes[k].size;
    for (std::size_t j = 0; j < k; ++j) {
      if (axes[j]->letter != axes[k]->letter) continue;
      if (axes[j]->blocks != axes[k]->blocks) return false;
      parts *= mesh.axes[j].size;
    }
    if (parts == mesh.axes[k].size) continue;  // on this axis alone, where it may be padded
    const std::int64_t size = factors.letters[at(axes[k]->letter)].size;
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
      : blocks_(graph.values.size(), 0) {
    std::map<int, std::vector<std::int64_t>> texts;
    for (std::size_t axis = 0; axis < candidates.size(); ++axis) {
      for (const auto& [place, lists] : *candidates[axis]) {
        std::vector<std::int64_t>& text = texts[place.first];
        for (const Blocks& list : lists) {
          for (const std::size_t value : {axis, at(place.second), list.size()})
            text.push_back(static_cast<std::int64_t>(value));
          text.insert(text.end(), list.begin(), list.end());
        }
      }
    }
    std::map<std::vector<std::int64_t>, int> known;
    for (auto& [value, text] : texts)
      blocks_[at(value)] =
          known.try_emplace(std::move(text), static_cast<int>(known.size()) + 1).first->second;
  }

  std::vector<int> of(const GraphNode& node) const {
    std::vector<int> key;
    key.reserve(1 + node.inputs.size() + node.outputs.size());
    key.push_back(node.kind);
    for (const std::vector<int>* values : {&node.inputs, &node.outputs})
      for (const int v : *values) key.push_back(v < 0 ? 0 : blocks_[at(v)]);
    return key;
  }

 private:
  std::vector<int> blocks_;  // per value: which list of them; 0: none
};

}  // namespace

std::vector<int> required_states(std::span<const std::vector<int>* const> taken, int from) {
  std::vector<int> required;
  for (const std::vector<int>* states : taken) {
    const int first = (*states)[0];
    const bool only = std::ranges::all_of(*states, [&](int state) { return state == first; });
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
  variable_of_.assign(graph.nodes.size(), -1);
  const Likeness likeness(graph, candidates);
  std::map<std::vector<int>, Choices> known;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].compile_time) continue;
    variable_of_[n] = variables_++;
    Choices& all = known[likeness.of(graph.nodes[n])];
    if (all == nullptr) all = make_choices(static_cast<int>(n), candidates);
    add_choices(static_cast<int>(n), all);
  }
  if (options_.caches == Caches::in_parts) add_caches();
  add_connections();
  add_flows();
  states_->codes = std::make_shared<const StateCodes>(states_->specs);
}

// Adds the choices of a node that the options keep.
void SplitSpace::add_choices(int node, Choices all) {
  if (options_.keeps) {
    std::vector<const Choice*> kept;
    for (const Choice* choice : *all)
      if (options_.keeps(node, choice->axes)) kept.push_back(choice);
    if (kept.empty()) unmet_.push_back(node);
    if (!kept.empty() && kept.size() < all->size()) all = listed(std::move(kept));
  }
  nodes_.push_back(node);
  choices_.push_back(all);
  kept_.push_back(nullptr);
}

SplitSpace::Choices SplitSpace::listed(std::vector<const Choice*> choices) {
  return &choice_lists_.emplace_back(std::move(choices));
}

SplitSpace::SplitSpace(const SplitSpace& whole, int open_axis, const std::vector<int>& choice)
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
  struct Kept {
    Choices choices = nullptr;
    States places = nullptr;  // in the whole space; null: all
    bool unmet = false;
  };
  std::map<std::pair<const void*, int>, Kept> known;  // by the node's choices and the one that it has
  for (; whole.node_of(variables_) >= 0; ++variables_) {
    const Choices all = whole.choices_[at(variables_)];
    const int own = choice.empty() ? -1 : choice[at(variables_)];
    const auto [entry, fresh] = known.try_emplace({all, own});
    Kept& kept = entry->second;
    if (fresh) {
      std::vector<const Choice*> choices;
      std::vector<int> places;
      for (std::size_t c = 0; c < all->size(); ++c) {
        const Combination axes = (*all)[c]->axes;
        bool fits = true;
        for (std::size_t k = 0; k < axes.size() && fits; ++k) {
          if (static_cast<int>(k) == open_axis) continue;
          // Strategies of a node and an axis are distinct.
          fits = open_axis == kAllAlike ? cut_alike(*axes[k], *axes[0])
                 : own < 0              ? is_whole(*axes[k])
                                        : axes[k] == (*all)[at(own)]->axes[k];
        }
        if (!fits) continue;
        choices.push_back((*all)[c]);
        places.push_back(static_cast<int>(c));
      }
      kept.unmet = choices.empty();
      kept.choices = kept.unmet ? all : listed(std::move(choices));
      if (!kept.unmet) kept.places = shared(std::move(places));
    }
    if (kept.unmet) unmet_.push_back(whole.node_of(variables_));
    nodes_.push_back(whole.node_of(variables_));
    choices_.push_back(kept.choices);
    kept_.push_back(kept.places);
  }
  if (options_.caches == Caches::in_parts) add_caches();
  for (Flow& flow : flows_) {
    flow.variable = -1;
    flow.choices = nullptr;
    flow.cells = 0;
  }
  add_flows();
}

std::vector<int> SplitSpace::choice_of(const SplitSpace& part, const std::vector<int>& choice) const {
  std::vector<int> own;
  for (std::size_t v = 0; v < choices_.size(); ++v) {
    if (nodes_[v] >= 0) {
      own.push_back(part.kept_[v] ? (*part.kept_[v])[at(choice[v])] : choice[v]);
      continue;
    }
    const Choice& wanted = part.choice(static_cast<int>(v), choice[v]);  // of a cache: one state
    const auto found =
        std::ranges::find(*choices_[v], wanted.outputs, [](const Choice* own) { return own->outputs; });
    ir::internal_check(found != choices_[v]->end(),
                       "a part of a search space has a choice that the whole lacks");
    own.push_back(static_cast<int>(found - choices_[v]->begin()));
  }
  return own;
}

int SplitSpace::state(const MeshSpec& spec) {
  const auto [found, added] = states_->index.try_emplace(spec, static_cast<int>(states_->specs.size()));
  if (added) states_->specs.push_back(spec);
  return found->second;
}
// Layers are equal, so that the same is asked again and again.
SplitSpace::Cut SplitSpace::cut(int v, const std::vector<std::int64_t>& sizes, const MeshSpec& whole) {
  if (v < 0) return {state(whole), false};
  const GraphValue& value = graph_.values[at(v)];
  const bool unread = value.readers.empty() && value.rank() == 0;  // its sizes are unknown
  if (mesh_.size() == 1 || unread || is_replicated(whole))
    return {state(whole), is_padded(whole, sizes, mesh_)};
  const auto [known, fresh] = cuts_[sizes].try_emplace(whole);
  if (fresh) {
    const std::optional<MeshSpec> own = cut_in_turn(whole, sizes, mesh_);
    known->second = {own ? state(*own) : -1, is_padded(whole, sizes, mesh_)};
  }
  return known->second;
}
SplitSpace::Choices SplitSpace::make_choices(int n, const std::vector<const BlockCandidates*>& candidates) {
  const GraphNode& node = graph_.nodes[at(n)];
  std::vector<std::vector<const Strategy*>> of_axis;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k) {
    std::vector<const Strategy*>& distinct = of_axis.emplace_back();
    for (Strategy& strategy : strategies(graph_, node, mesh_.axes[k].size, *candidates[k])) {
      if (!allowed(graph_, node, strategy)) continue;
      const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Strategy* other) {
        return other->inputs == strategy.inputs && other->outputs == strategy.outputs;
      });
      if (known) continue;
      distinct.push_back(&strategies_->emplace_back(std::move(strategy)));
      if (mesh_.axes[k].size == 1) break;  // whole, which comes first
    }
    ir::internal_check(!distinct.empty(), "node '{}' has no legal combination", plan_name(graph_, node));
  }
  // The states of each tensor, by the numbers of its states on the axes. Most tuples differ only in other
  // tensors.
  struct Tensor {
    int value = -1;
    std::vector<std::int64_t> sizes;
    std::vector<std::vector<int>> number;         // per axis and strategy
    std::vector<std::vector<const Spec*>> specs;  // per axis and number
    std::vector<std::optional<Cut>> cuts;         // row-major
  };
  std::vector<Tensor> tensors;
  for (const bool outputs : {false, true}) {
    const std::vector<int>& values = outputs ? node.outputs : node.inputs;
    for (std::size_t k = 0; k < values.size(); ++k) {
      Tensor& tensor = tensors.emplace_back();
      tensor.value = values[k];
      if (tensor.value >= 0) tensor.sizes = static_sizes(graph_.values[at(tensor.value)]);
      std::size_t cells = 1;
      for (const std::vector<const Strategy*>& of : of_axis) {
        std::vector<int>& number = tensor.number.emplace_back();
        std::vector<const Spec*>& specs = tensor.specs.emplace_back();
        for (const Strategy* s : of) {
          const Spec& spec = outputs ? s->outputs[k] : s->inputs[k];
          const auto known =
              std::find_if(specs.begin(), specs.end(), [&](const Spec* p) { return *p == spec; });
          number.push_back(static_cast<int>(known - specs.begin()));
          if (known == specs.end()) specs.push_back(&spec);
        }
        cells *= specs.size();
      }
      tensor.cuts.resize(cells);
    }
  }
  Choice choice;  // of the tuple, most of which cannot be cut
  const auto cut_all = [&](const std::vector<std::size_t>& tuple) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Tensor& tensor = tensors[t];
      std::size_t cell = 0;
      for (std::size_t a = 0; a < tuple.size(); ++a)
        cell = cell * tensor.specs[a].size() + at(tensor.number[a][tuple[a]]);
      std::optional<Cut>& cut = tensor.cuts[cell];
      if (!cut) {
        MeshSpec whole;
        whole.reserve(tuple.size());
        for (std::size_t a = 0; a < tuple.size(); ++a)
          whole.push_back(*tensor.specs[a][at(tensor.number[a][tuple[a]])]);
        cut = this->cut(tensor.value, tensor.sizes, whole);
      }
      if (cut->state < 0) return false;
      choice.padded = choice.padded || cut->padded;
      (t < node.inputs.size() ? choice.inputs : choice.outputs).push_back(cut->state);
    }
    return true;
  };
  std::vector<const Choice*> all;
  std::vector<const Strategy*>& axes = choice.axes;
  std::vector<std::size_t> tuple;
  const auto extend = [&](const auto& self) -> void {
    if (axes.size() == of_axis.size()) {
      if (axes.size() > 1 && !letters_fit(node.factors, axes, mesh_)) return;
      choice.inputs.clear();
      choice.outputs.clear();
      choice.padded = false;
      if (!cut_all(tuple)) return;
      // The collectives of a local form have no padded states.
      const auto communicates = [&](std::size_t k) {
        return axes[k]->letter >= 0 &&
               !node.operation->inner(graph_, node, *axes[k], mesh_.axes[k].size).empty();
      };
      if (axes.size() > 1 && choice.padded) {
        for (std::size_t k = 0; k < axes.size(); ++k)
          if (communicates(k)) return;
      }
      all.push_back(&own_choices_.emplace_back(choice));
      return;
    }
    const std::vector<const Strategy*>& of = of_axis[axes.size()];
    for (std::size_t s = 0; s < of.size(); ++s) {
      axes.push_back(of[s]);
      tuple.push_back(s);
      self(self);
      axes.pop_back();
      tuple.pop_back();
    }
  };
  extend(extend);
  return listed(std::move(all));
}

void SplitSpace::add_caches() {
  for (const Cache& cache : caches_of(graph_)) {
    // The states that some reader of the cache takes, those in which it is produced if only the next step
    // reads it, and whole.
    std::set<int> wanted = {kReplicated};
    const auto want = [&](int state) {
      if (std::ranges::none_of(spec(state), &Spec::is_pending)) wanted.insert(state);
    };
    const int value = cache.input < 0 ? graph_.outputs[at(cache.output)] : cache.input;
    bool read = false;
    for (const GraphUse& use : graph_.values[at(value)].readers) {
      if (use.node < 0 || variable_of_[at(use.node)] < 0) continue;
      read = true;
      for (const Choice* choice : choices(variable_of_[at(use.node)])) want(choice->inputs[at(use.input)]);
    }
    if (const int producer = graph_.values[at(value)].producer;
        !read && producer >= 0 && variable_of_[at(producer)] >= 0) {
      const std::vector<int>& outputs = graph_.nodes[at(producer)].outputs;
      const auto output = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
      for (const Choice* choice : choices(variable_of_[at(producer)])) want(choice->outputs[at(output)]);
    }
    std::vector<const Choice*> own;
    for (const int spec : wanted)
      own.push_back(&own_choices_.emplace_back(Choice{{}, {spec}, {spec}, false}));
    cache_outputs_[cache.output] = variables_++;
    if (cache.input >= 0) cache_inputs_[cache.input] = cache_outputs_[cache.output];
    nodes_.push_back(-1);
    choices_.push_back(listed(std::move(own)));
    kept_.push_back(nullptr);
  }
}
SplitSpace::States SplitSpace::shared(std::vector<int> states) {
  return &*lists_.insert(std::move(states)).first;
}

// The state of one output or input for each choice of the variable.
SplitSpace::States SplitSpace::states_of(int variable, bool of_outputs, int number) {
  auto& [outputs, inputs] = lists_of_[choices_[at(variable)]];
  std::vector<States>& lists = of_outputs ? outputs : inputs;
  if (lists.size() <= at(number)) lists.resize(at(number) + 1);
  States& known = lists[at(number)];
  if (known != nullptr) return known;
  std::vector<int> states;
  states.reserve(choices(variable).size());
  for (const Choice* choice : choices(variable))
    states.push_back((of_outputs ? choice->outputs : choice->inputs)[at(number)]);
  return known = shared(std::move(states));
}

SplitSpace::States SplitSpace::produced_by(const Flow& flow) {
  if (flow.producer >= 0) return states_of(flow.producer, true, flow.output);
  const auto found = given_.find(flow.value);
  return shared({found == given_.end() ? kReplicated : found->second});
}

SplitSpace::States SplitSpace::taken_by(const Reader& reader) {
  if (reader.variable >= 0) return states_of(reader.variable, false, reader.input);
  const auto found = returned_.find(reader.input);
  return shared({found == returned_.end() ? kReplicated : found->second});
}

// Connects producers and readers, without states.
void SplitSpace::add_connections() {
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    const GraphValue& value = graph_.values[v];
    if (value.constant) continue;
    Flow flow;
    flow.value = static_cast<int>(v);
    if (value.producer >= 0) {
      flow.producer = variable_of_[at(value.producer)];
      if (flow.producer < 0) continue;  // compile-time: whole everywhere, and so are its readers' inputs
      const std::vector<int>& outputs = graph_.nodes[at(value.producer)].outputs;
      flow.output =
          static_cast<int>(std::find(outputs.begin(), outputs.end(), static_cast<int>(v)) - outputs.begin());
    } else if (!value.graph_input) {
      continue;
    } else if (const auto cache = cache_inputs_.find(flow.value); cache != cache_inputs_.end()) {
      flow.producer = cache->second;
    }
    flow.first_reader = readers_.size();
    for (const GraphUse& use : value.readers) {
      if (use.node < 0) {
        const auto cache = cache_outputs_.find(use.input);
        readers_.push_back(cache == cache_outputs_.end() ? Reader{-1, use.input} : Reader{cache->second, 0});
      } else if (variable_of_[at(use.node)] >= 0) {
        readers_.push_back({variable_of_[at(use.node)], use.input});
      }
    }
    flow.readers = readers_.size() - flow.first_reader;
    if (flow.readers > 0) flows_.push_back(flow);
  }
}

// Adds states and variables to the connections.
void SplitSpace::add_flows() {
  const int owners = variables_;
  for (Reader& reader : readers_) reader.taken = taken_by(reader);
  for (Flow& flow : flows_) {
    flow.produced = produced_by(flow);
    if (!large_) add_variable(flow);
  }
  measure();
  if (!large_) return;
  variables_ = owners;
  for (Flow& flow : flows_) {
    flow.variable = -1;
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
    const auto add = [&](const std::vector<int>& list) {
      std::vector<MeshSpec>& specs = alike.states.emplace_back();
      for (const int state : list) specs.push_back(spec(state));
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
    const auto dtype = [&](const Alike& alike) { return graph_.values[at(alike.flows[0]->value)].dtype; };
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
bool SplitSpace::convertible(int value, int from, int to) const {
  const ir::DType dtype = graph_.values[at(value)].dtype;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k) {
    const int ranks = mesh_.axes[k].size;
    if (!conversion_steps(spec(from)[k], spec(to)[k], dtype, ranks, ranks)) return false;
  }
  return true;
}
SplitSpace::ValueChoices SplitSpace::value_choices(const Flow& flow) const {
  // Ordered by content, not by when they were first seen.
  const auto by_spec = [this](int a, int b) { return spec(a) < spec(b); };
  std::set<int, decltype(by_spec)> produced(by_spec), wanted(by_spec);
  produced.insert(flow.produced->begin(), flow.produced->end());
  std::vector<const std::vector<int>*> taken;
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
  for (const int from : produced) {
    std::vector<int> reachable;
    for (const int to : wanted) {
      if (to != from && convertible(flow.value, from, to)) reachable.push_back(to);
    }
    // Readers that take one state only, as fixed lines ask for, may need more than two.
    constexpr std::size_t kMostConverted = 2;
    if (std::vector<int> required = required_states(taken, from); required.size() > kMostConverted) {
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
  all.push_back(static_cast<std::intptr_t>(graph_.values[at(flow.value)].dtype));
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
  flow.variable = variables_++;
}

void SplitSpace::measure() {
  if (mesh_.size() == 1 || large_) return;
  std::size_t cells = 0;
  for (const Flow& flow : flows_) {
    const std::size_t produced = flow.variable >= 0  ? flow.choices->all.size()
                                 : flow.producer < 0 ? 1
                                                     : choices(flow.producer).size();
    if (flow.variable >= 0 && flow.producer >= 0) cells += produced * choices(flow.producer).size();
    for (const Reader& reader : readers(flow))
      cells += produced * (reader.variable < 0 ? 1 : choices(reader.variable).size());
  }
  large_ = cells > options_.cells;
}
// Tensors follow their producers. Caches and given tensors come before the node that reads them first.
std::vector<int> SplitSpace::order() const {
  const auto is_node = [&](int variable) { return variable >= 0 && node_of(variable) >= 0; };
  std::vector<int> reader(at(variables_),
                          -1);  // of roots that no node produces: the first node that reads them
  std::vector<std::vector<int>> behind(at(variables_));
  std::vector<int> roots;
  for (std::size_t v = 0; v < choices_.size(); ++v) roots.push_back(static_cast<int>(v));
  for (const Flow& flow : flows_) {
    const int root = flow.producer >= 0 ? flow.producer : flow.variable;
    if (root < 0) continue;
    if (flow.variable >= 0) (flow.producer >= 0 ? behind[at(root)] : roots).push_back(flow.variable);
    for (const Reader& own : readers(flow)) {
      int& known = reader[at(root)];
      if (is_node(own.variable) && (known < 0 || own.variable < known)) known = own.variable;
    }
  }
  // By the node before which they stand; of one node, it comes last.
  std::ranges::stable_sort(roots, {},
                           [&](int v) { return std::pair(is_node(v) ? v : reader[at(v)], is_node(v)); });
  std::vector<int> all;
  for (const int root : roots) {
    all.push_back(root);
    all.insert(all.end(), behind[at(root)].begin(), behind[at(root)].end());
  }
  return all;
}

}  // namespace braid::split
