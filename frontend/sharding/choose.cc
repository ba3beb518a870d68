#include "frontend/sharding/choose.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "frontend/sharding/caches.h"
#include "ir/error.h"

namespace braid::frontend::sharding {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A combination must take what is pinned whole, and constants as they can be cut.
bool allowed(const Graph& graph, const GraphNode& node, const Strategy& strategy) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0 || strategy.inputs[k].is_replicated()) continue;
    const GraphValue& value = graph.values[at(node.inputs[k])];
    if (value.pinned) return false;
    if (value.constant && !can_shard(*value.constant, strategy.inputs[k])) return false;
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
// Of the tables of a relaxed problem.
constexpr std::size_t kMostRelaxed = std::size_t{1} << 24;

std::vector<std::int64_t> static_sizes(const GraphValue& value) {
  std::vector<std::int64_t> sizes;
  for (const ir::Expr& size : value.sizes) sizes.push_back(static_size(size).value_or(-1));
  return sizes;
}

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

// Of a node with the collectives that its local form has in it.
Cost cost_of(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
             const SplitCosts& costs) {
  Cost sum = axes.size() == 1 ? costs.node(graph, node, *axes[0], mesh.ranks())
                              : costs.node_on_mesh(graph, node, axes, mesh);
  if (node.rule == nullptr || node.rule->inner == nullptr) return sum;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (axes[k]->letter < 0) continue;
    const int ranks = mesh.axes[k].size;
    for (ConversionStep& step : node.rule->inner(NodeView(graph, node), *axes[k], ranks)) {
      step.axis = static_cast<int>(k);
      step.stride = mesh.stride(step.axis);
      sum += costs.step(step, ranks);
    }
  }
  return sum;
}

}  // namespace

bool ChosenNode::is_split() const {
  return std::any_of(axes.begin(), axes.end(), [](const Strategy& s) { return s.letter >= 0; });
}

Cost SplitChoice::price(const Graph& graph, const SplitCosts& costs) const {
  Cost sum = 0;
  for (const ChosenNode& chosen : nodes) {
    const GraphNode& node = graph.nodes[at(chosen.node)];
    std::vector<const Strategy*> axes;
    for (const Strategy& s : chosen.axes) axes.push_back(&s);
    sum += cost_of(graph, node, axes, plan.mesh, costs);
  }
  for (const ChosenConversion& c : conversions) {
    for (const ConversionStep& step : c.steps) sum += costs.step(step, plan.mesh.axes[at(step.axis)].size);
  }
  return sum;
}

SplitSpace::SplitSpace(const Graph& graph, const Mesh& mesh, SpaceOptions options)
    : graph_(graph), mesh_(mesh), options_(std::move(options)) {
  state(MeshSpec(mesh.axes.size()));
  for (const auto& [value, spec] : options_.given) given_[value] = state(spec);
  for (const auto& [output, spec] : options_.returned) returned_[output] = state(spec);
  std::vector<BlockCandidates> candidates;
  for (const MeshAxis& axis : mesh.axes) {
    candidates.push_back(block_candidates(graph, axis.size));
    for (const auto& [place, blocks] : options_.blocks)
      candidates.back()[place].insert(blocks.begin(), blocks.end());
  }
  variable_of_.assign(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].compile_time) continue;
    variable_of_[n] = variables_++;
    nodes_.push_back(static_cast<int>(n));
    choices_.push_back(choices_of(static_cast<int>(n), candidates));
  }
  add_flows();
}

SplitSpace::SplitSpace(const SplitSpace& whole, std::function<bool(int node, Combination axes)> keeps)
    : graph_(whole.graph_),
      mesh_(whole.mesh_),
      options_(whole.options_),
      states_(whole.states_),
      index_(whole.index_),
      variable_of_(whole.variable_of_),
      given_(whole.given_),
      returned_(whole.returned_) {
  options_.keeps = std::move(keeps);
  options_.cells = std::max(options_.cells, SpaceOptions().cells);
  for (; whole.node_of(variables_) >= 0; ++variables_) {
    const int n = whole.node_of(variables_);
    nodes_.push_back(n);
    std::vector<Choice> kept;
    for (const Choice& choice : whole.choices_[at(variables_)])
      if (options_.keeps(n, choice.axes)) kept.push_back(choice);
    if (kept.empty()) {
      unmet_.push_back(n);
      kept = whole.choices_[at(variables_)];
    }
    choices_.push_back(std::move(kept));
  }
  add_flows();
}

std::vector<SplitSpace::Flow> SplitSpace::flows() const {
  std::vector<Flow> all;
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
    for (const GraphUse& use : value.readers) {
      if (use.node < 0) {
        const auto cache = cache_outputs_.find(use.input);
        flow.readers.push_back(cache == cache_outputs_.end() ? Reader{-1, use.input}
                                                             : Reader{cache->second, 0});
      } else if (variable_of_[at(use.node)] >= 0) {
        flow.readers.push_back({variable_of_[at(use.node)], use.input});
      }
    }
    if (!flow.readers.empty()) all.push_back(std::move(flow));
  }
  return all;
}

void SplitSpace::add_flows() {
  if (options_.caches == Caches::in_parts) add_caches();
  const int owners = variables_;
  for (Flow& flow : flows()) {
    if (!large_) add_flow(std::move(flow));
  }
  measure();
  if (!large_) return;
  flows_ = flows();
  variables_ = owners;
  // The smallest tables; what the other conversions cost is left out.
  std::vector<std::pair<std::size_t, std::size_t>> sizes;
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    std::size_t cells = 0;
    for (const Reader& reader : flows_[f].readers) {
      const std::size_t wanted = reader.variable < 0 ? 1 : choices_[at(reader.variable)].size();
      cells += wanted * (flows_[f].producer < 0 ? 1 : choices_[at(flows_[f].producer)].size());
    }
    sizes.push_back({cells, f});
  }
  std::sort(sizes.begin(), sizes.end());
  std::size_t all = 0;
  for (const auto& [cells, f] : sizes) {
    all += cells;
    flows_[f].free = all > kMostRelaxed;
  }
}

int SplitSpace::state(const MeshSpec& spec) {
  const auto [found, added] = index_.try_emplace(spec, static_cast<int>(states_.size()));
  if (added) states_.push_back(spec);
  return found->second;
}

// Layers are equal, so that the same is asked again and again.
SplitSpace::Cut SplitSpace::cut(int v, const MeshSpec& whole) {
  if (v < 0) return {state(whole), false};
  const GraphValue& value = graph_.values[at(v)];
  const std::vector<std::int64_t> sizes = static_sizes(value);
  const bool unread = value.readers.empty() && value.rank() == 0;  // its sizes are unknown
  if (mesh_.size() == 1 || unread || is_replicated(whole))
    return {state(whole), is_padded(whole, sizes, mesh_)};
  const auto [known, fresh] = cuts_.try_emplace({sizes, whole});
  if (fresh) {
    const std::optional<MeshSpec> own = cut_in_turn(whole, sizes, mesh_);
    known->second = {own ? state(*own) : -1, is_padded(whole, sizes, mesh_)};
  }
  return known->second;
}

std::vector<int> SplitSpace::choice_of(const SplitSpace& part, const std::vector<int>& choice) const {
  std::vector<int> own;
  for (std::size_t v = 0; v < choices_.size(); ++v) {
    const Choice& wanted = part.choices_[v][at(choice[v])];
    const auto found = std::find_if(choices_[v].begin(), choices_[v].end(), [&](const Choice& c) {
      return c.axes == wanted.axes && c.inputs == wanted.inputs && c.outputs == wanted.outputs;
    });
    ir::internal_check(found != choices_[v].end(),
                       "a part of a search space has a choice that the whole lacks");
    own.push_back(static_cast<int>(found - choices_[v].begin()));
  }
  return own;
}

std::vector<SplitSpace::Choice> SplitSpace::choices_of(int n,
                                                       const std::vector<BlockCandidates>& candidates) {
  const GraphNode& node = graph_.nodes[at(n)];
  std::vector<std::vector<const Strategy*>> of_axis;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k) {
    std::vector<const Strategy*>& distinct = of_axis.emplace_back();
    for (Strategy& strategy : strategies(graph_, node, mesh_.axes[k].size, candidates[k])) {
      if (!allowed(graph_, node, strategy)) continue;
      const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Strategy* other) {
        return other->inputs == strategy.inputs && other->outputs == strategy.outputs;
      });
      if (known) continue;
      strategies_.push_back(std::move(strategy));
      distinct.push_back(&strategies_.back());
      if (mesh_.axes[k].size == 1) break;  // whole, which comes first
    }
    ir::internal_check(!distinct.empty(), "node '{}' has no legal combination", plan_name(graph_, node));
  }
  // What each tensor becomes, by the numbers of its states on the axes: most tuples differ in other tensors.
  struct Tensor {
    int value = -1;
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
  const auto cut_all = [&](const std::vector<std::size_t>& tuple, Choice& choice) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Tensor& tensor = tensors[t];
      std::size_t cell = 0;
      for (std::size_t a = 0; a < tuple.size(); ++a)
        cell = cell * tensor.specs[a].size() + at(tensor.number[a][tuple[a]]);
      std::optional<Cut>& cut = tensor.cuts[cell];
      if (!cut) {
        MeshSpec whole;
        for (std::size_t a = 0; a < tuple.size(); ++a)
          whole.push_back(*tensor.specs[a][at(tensor.number[a][tuple[a]])]);
        cut = this->cut(tensor.value, whole);
      }
      if (cut->state < 0) return false;
      choice.padded = choice.padded || cut->padded;
      (t < node.inputs.size() ? choice.inputs : choice.outputs).push_back(cut->state);
    }
    return true;
  };
  const Factors factors = mesh_.size() > 1 ? factors_of(graph_, node) : Factors{};
  std::vector<Choice> kept;
  std::vector<const Strategy*> axes;
  std::vector<std::size_t> tuple;
  const auto extend = [&](const auto& self, bool any) -> void {
    if (axes.size() == of_axis.size()) {
      if (!any && !options_.keeps(n, axes)) return;
      if (axes.size() > 1 && !letters_fit(factors, axes, mesh_)) return;
      Choice choice{axes, {}, {}};
      if (cut_all(tuple, choice)) kept.push_back(std::move(choice));
      return;
    }
    const std::vector<const Strategy*>& of = of_axis[axes.size()];
    for (std::size_t s = 0; s < of.size(); ++s) {
      axes.push_back(of[s]);
      tuple.push_back(s);
      self(self, any);
      axes.pop_back();
      tuple.pop_back();
    }
  };
  extend(extend, !options_.keeps);
  if (!kept.empty()) return kept;
  unmet_.push_back(n);
  extend(extend, true);
  return kept;
}

void SplitSpace::add_caches() {
  for (const CachePair& pair : cache_pairs(graph_)) {
    // The states that some reader of the past takes, and whole.
    std::set<int> wanted = {kReplicated};
    for (const GraphUse& use : graph_.values[at(pair.input)].readers) {
      if (use.node < 0 || variable_of_[at(use.node)] < 0) continue;
      for (const Choice& choice : choices_[at(variable_of_[at(use.node)])]) {
        const int spec = choice.inputs[at(use.input)];
        const MeshSpec& axes = states_[at(spec)];
        if (std::none_of(axes.begin(), axes.end(), [](const Spec& s) { return s.is_pending(); }))
          wanted.insert(spec);
      }
    }
    std::vector<Choice> own;
    for (const int spec : wanted) own.push_back({{}, {spec}, {spec}, false});
    cache_inputs_[pair.input] = cache_outputs_[pair.output] = variables_++;
    nodes_.push_back(-1);
    choices_.push_back(std::move(own));
  }
}

// Whether every axis can be converted, each on its own.
bool SplitSpace::convertible(int value, int from, int to) const {
  const ir::DType dtype = graph_.values[at(value)].dtype;
  for (std::size_t k = 0; k < mesh_.axes.size(); ++k) {
    const int ranks = mesh_.axes[k].size;
    if (!conversion_steps(states_[at(from)][k], states_[at(to)][k], dtype, ranks, ranks)) return false;
  }
  return true;
}

std::vector<int> SplitSpace::required_states(const Flow& flow, int from) const {
  std::vector<int> required;
  for (const Reader& reader : flow.readers) {
    const int first =
        reader.variable < 0 ? taken(reader, 0) : choices_[at(reader.variable)][0].inputs[at(reader.input)];
    const bool only =
        reader.variable < 0 || std::ranges::all_of(choices_[at(reader.variable)], [&](const Choice& choice) {
          return choice.inputs[at(reader.input)] == first;
        });
    if (only && first != from && std::ranges::find(required, first) == required.end())
      required.push_back(first);
  }
  return required;
}

void SplitSpace::add_flow(Flow flow) {
  if (flow.producer >= 0 && flow.readers.size() > 1) {
    // Ordered by what they are, not by when they were first seen.
    const auto by_spec = [this](int a, int b) { return states_[at(a)] < states_[at(b)]; };
    std::set<int, decltype(by_spec)> produced(by_spec), wanted(by_spec);
    for (const Choice& choice : choices_[at(flow.producer)]) produced.insert(choice.outputs[at(flow.output)]);
    for (const Reader& reader : flow.readers) {
      if (reader.variable < 0) {
        wanted.insert(taken(reader, 0));
        continue;
      }
      for (const Choice& choice : choices_[at(reader.variable)])
        wanted.insert(choice.inputs[at(reader.input)]);
    }
    if (produced.size() * (wanted.size() + 1) > kMostChoices) {
      large_ = true;
      return;
    }
    const bool pairs = mesh_.size() == 1 || produced.size() * wanted.size() * wanted.size() / 2 <= kMostPairs;
    for (const int from : produced) {
      std::vector<int> reachable;
      for (const int to : wanted) {
        if (to != from && convertible(flow.value, from, to)) reachable.push_back(to);
      }
      // Readers that take one state only, as fixed lines ask for, may need more than two.
      constexpr std::size_t kMostConverted = 2;
      if (std::vector<int> required = required_states(flow, from); required.size() > kMostConverted) {
        flow.choices.push_back({from, std::move(required)});
        continue;
      }
      flow.choices.push_back({from, {}});
      for (std::size_t i = 0; i < reachable.size(); ++i) {
        flow.choices.push_back({from, {reachable[i]}});
        for (std::size_t j = i + 1; pairs && j < reachable.size(); ++j)
          flow.choices.push_back({from, {reachable[i], reachable[j]}});
      }
      // States that are given may be any number.
      if (options_.keeps && reachable.size() > 2) flow.choices.push_back({from, reachable});
    }
    flow.variable = variables_++;
    flow.complete = pairs;
  }
  flows_.push_back(std::move(flow));
}

void SplitSpace::measure() {
  if (mesh_.size() == 1 || large_) return;
  std::size_t cells = 0;
  for (const Flow& flow : flows_) {
    const std::size_t produced = flow.variable >= 0  ? flow.choices.size()
                                 : flow.producer < 0 ? 1
                                                     : choices_[at(flow.producer)].size();
    if (flow.variable >= 0) cells += produced * choices_[at(flow.producer)].size();
    for (const Reader& reader : flow.readers)
      cells += produced * (reader.variable < 0 ? 1 : choices_[at(reader.variable)].size());
  }
  large_ = cells > options_.cells;
}

int SplitSpace::taken(const Reader& reader, int choice) const {
  if (reader.variable >= 0) return choices_[at(reader.variable)][at(choice)].inputs[at(reader.input)];
  const auto found = returned_.find(reader.input);
  return found == returned_.end() ? kReplicated : found->second;
}

int SplitSpace::given(const Flow& flow) const {
  const auto found = given_.find(flow.value);
  return found == given_.end() ? kReplicated : found->second;
}

Cost SplitSpace::node_cost(const GraphNode& node, const Choice& choice, const SplitCosts& costs) const {
  return cost_of(graph_, node, choice.axes, mesh_, costs);
}

std::int64_t SplitSpace::bytes(int value, const SplitCosts& costs) const {
  std::int64_t elements = 1;
  for (const ir::Expr& size : graph_.values[at(value)].sizes) elements *= costs.size(size);
  return elements * ir::size_of(graph_.values[at(value)].dtype);
}

std::optional<std::vector<ConversionStep>> SplitSpace::steps(int value, int from, int to,
                                                             const SplitCosts& costs) const {
  const GraphValue& v = graph_.values[at(value)];
  return mesh_conversion_steps(states_[at(from)], states_[at(to)], v.dtype, bytes(value, costs), v.sizes,
                               mesh_, costs.step);
}

// Prices of conversions. Layers are equal, so that the same ones are asked for again and again.
class SplitSpace::Conversions {
 public:
  Conversions(const SplitSpace& space, const SplitCosts& costs)
      : space_(space), costs_(costs), shape_of_(space.graph_.values.size(), kUnknown) {}

  Cost operator()(int value, int from, int to) {
    if (from == to) return 0;
    const int of = shape(value);
    if (of == kPinned) return kForbidden;
    const auto states = static_cast<std::uint64_t>(space_.states_.size());
    const std::uint64_t key = (static_cast<std::uint64_t>(of) * states + at(from)) * states + at(to);
    const auto [entry, fresh] = known_.try_emplace(key, kForbidden);
    if (!fresh) return entry->second;
    const auto steps = space_.steps(value, from, to, costs_);
    if (!steps) return kForbidden;
    Cost sum = 0;
    for (const ConversionStep& step : *steps) sum += costs_.step(step, space_.mesh_.axes[at(step.axis)].size);
    return entry->second = sum;
  }

  // From each of those states into each of these, row by row. `divisor` divides.
  const std::vector<Cost>& table(int value, const std::vector<int>& from, const std::vector<int>& to,
                                 Cost divisor = 1) {
    std::vector<int> key = {shape(value), static_cast<int>(divisor), static_cast<int>(from.size())};
    key.insert(key.end(), from.begin(), from.end());
    key.insert(key.end(), to.begin(), to.end());
    const auto [entry, fresh] = tables_.try_emplace(std::move(key));
    std::vector<Cost>& costs = entry->second;
    if (!fresh) return costs;
    costs.reserve(from.size() * to.size());
    for (const int i : from) {
      for (const int j : to) {
        const Cost cost = (*this)(value, i, j);
        costs.push_back(cost == kForbidden ? kForbidden : cost / divisor);
      }
    }
    return costs;
  }

 private:
  // What conversions of the value cost the same as those of all of the shape.
  int shape(int value) {
    int& known = shape_of_[at(value)];
    if (known != kUnknown) return known;
    const GraphValue& v = space_.graph_.values[at(value)];
    if (v.pinned) return known = kPinned;
    std::vector<std::int64_t> sizes = static_sizes(v);
    sizes.push_back(space_.bytes(value, costs_));
    return known = shapes_.try_emplace({v.dtype, std::move(sizes)}, static_cast<int>(shapes_.size()))
                       .first->second;
  }

  const SplitSpace& space_;
  const SplitCosts& costs_;
  static constexpr int kPinned = -1, kUnknown = -2;
  std::vector<int> shape_of_;  // per value
  std::map<std::pair<ir::DType, std::vector<std::int64_t>>, int> shapes_;
  std::unordered_map<std::uint64_t, Cost> known_;
  std::map<std::vector<int>, std::vector<Cost>> tables_;
};

std::vector<int> SplitSpace::produced_by(const Flow& flow) const {
  if (flow.producer < 0) return {given(flow)};
  std::vector<int> states;
  for (const Choice& choice : choices_[at(flow.producer)]) states.push_back(choice.outputs[at(flow.output)]);
  return states;
}

std::vector<int> SplitSpace::taken_by(const Reader& reader) const {
  if (reader.variable < 0) return {taken(reader, 0)};
  std::vector<int> states;
  for (const Choice& choice : choices_[at(reader.variable)])
    states.push_back(choice.inputs[at(reader.input)]);
  return states;
}

Problem SplitSpace::problem(const SplitCosts& costs, bool relaxed) const {
  ir::internal_check(relaxed || !large_, "a search space that is too large is searched");
  Conversions conversion(*this, costs);
  Problem problem;
  problem.variables.resize(at(variables_));
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const Choice& choice : choices_[n])
      problem.variables[n].push_back(nodes_[n] < 0 ? 0
                                                   : node_cost(graph_.nodes[at(nodes_[n])], choice, costs));
  }
  const auto add = [](Cost& sum, Cost cost) {
    sum = sum == kForbidden || cost == kForbidden ? kForbidden : sum + cost;
  };
  for (const Flow& flow : flows_) {
    if (flow.free) continue;
    const std::vector<int> produced = produced_by(flow);
    const bool owned = has_variable(flow, relaxed);
    if (flow.variable >= 0 && !owned) problem.variables[at(flow.variable)].assign(flow.choices.size(), 0);
    if (owned) {
      std::vector<Cost>& own = problem.variables[at(flow.variable)];
      for (const ValueChoice& choice : flow.choices) {
        Cost sum = 0;
        for (const int to : choice.converted) add(sum, conversion(flow.value, choice.produced, to));
        own.push_back(sum);
      }
      Edge edge{flow.producer, flow.variable, {}};
      edge.costs.reserve(produced.size() * flow.choices.size());
      for (const int state : produced) {
        for (const ValueChoice& choice : flow.choices)
          edge.costs.push_back(state == choice.produced ? 0 : kForbidden);
      }
      problem.edges.push_back(std::move(edge));
    }
    std::vector<char> offered(states_.size(), 0);
    for (const Reader& reader : flow.readers) {
      const std::vector<int> wanted = taken_by(reader);
      if (owned) {
        Edge edge{flow.variable, reader.variable, {}};
        edge.costs.reserve(flow.choices.size() * wanted.size());
        for (std::size_t c = 0; c < flow.choices.size(); ++c) {
          const ValueChoice& choice = flow.choices[c];
          offered[at(choice.produced)] = 1;
          for (const int state : choice.converted) offered[at(state)] = 1;
          if (reader.variable < 0) {
            if (offered[at(wanted[0])] == 0) problem.variables[at(flow.variable)][c] = kForbidden;
          } else {
            for (const int state : wanted) edge.costs.push_back(offered[at(state)] != 0 ? 0 : kForbidden);
          }
          offered[at(choice.produced)] = 0;
          for (const int state : choice.converted) offered[at(state)] = 0;
        }
        if (reader.variable >= 0) problem.edges.push_back(std::move(edge));
        continue;
      }
      if (flow.producer < 0 && reader.variable < 0) continue;
      // At most one conversion is paid, and by each reader a part of it.
      const auto parts = static_cast<Cost>(relaxed ? flow.readers.size() : 1);
      const std::vector<Cost>& table = conversion.table(flow.value, produced, wanted, parts);
      if (flow.producer >= 0 && reader.variable >= 0) {
        problem.edges.push_back({flow.producer, reader.variable, table});
        continue;
      }
      std::vector<Cost>& own = problem.variables[at(std::max(flow.producer, reader.variable))];
      for (std::size_t c = 0; c < own.size(); ++c) add(own[c], table[c]);
    }
  }
  return problem;
}

std::vector<Passage> SplitSpace::passages(const SplitCosts& costs, bool relaxed) const {
  Conversions conversion(*this, costs);
  std::vector<Passage> all;
  for (const Flow& flow : flows_) {
    std::vector<int> from;
    const bool owned = has_variable(flow, relaxed);
    if (owned) {
      for (const ValueChoice& choice : flow.choices) from.push_back(choice.produced);
    } else {
      from = produced_by(flow);
    }
    for (const Reader& reader : flow.readers) {
      if (flow.producer < 0 && reader.variable < 0) continue;
      Passage passage{flow.producer, reader.variable, flow.value, -1, -1, {}};
      if (!flow.free) passage.costs = conversion.table(flow.value, from, taken_by(reader));
      for (Cost& cost : passage.costs) cost = cost == kForbidden ? 0 : cost;  // the problem forbids it
      passage.from = owned ? flow.variable : flow.producer;
      (passage.from < 0 ? passage.from : passage.to) = reader.variable;
      all.push_back(std::move(passage));
    }
  }
  return all;
}

bool SplitSpace::pads(const std::vector<int>& choice) const {
  for (std::size_t v = 0; v < choices_.size(); ++v)
    if (choices_[v][at(choice[v])].padded) return true;
  return false;
}

void SplitSpace::forbid_padding(Problem& problem) const {
  for (std::size_t v = 0; v < choices_.size(); ++v) {
    for (std::size_t c = 0; c < choices_[v].size(); ++c)
      if (choices_[v][c].padded) problem.variables[v][c] = kForbidden;
  }
}

namespace {

// A line of a plan, on every axis. Nothing is said of values that are whole on all of them.
void set_value(MeshPlan& plan, const std::string& name, const MeshSpec& spec) {
  if (is_replicated(spec)) return;
  for (std::size_t k = 0; k < spec.size(); ++k) {
    if (spec.size() > 1 || !spec[k].is_replicated()) plan.axes[k].values[name] = spec[k];
  }
}
void set_reader(MeshPlan& plan, const std::string& name, const Plan::Reader& reader, const MeshSpec& spec) {
  for (std::size_t k = 0; k < spec.size(); ++k) plan.axes[k].readers[{name, reader}] = spec[k];
}

}  // namespace

SplitChoice SplitSpace::choose(const SplitCosts& costs, const SolveOptions& options,
                               const std::function<void(Problem&)>& restrict) const {
  SplitChoice result;
  Problem problem = this->problem(costs);
  if (restrict) restrict(problem);
  result.solution = solve(problem, options);
  result.plan = MeshPlan(mesh_);
  if (result.solution.status == Status::kInfeasible || (restrict && !result.solution.feasible()))
    return result;
  // All whole is always possible without restrictions, so only a spent budget ends here.
  if (!result.solution.feasible()) {
    result.solution.choice.assign(at(variables_), 0);
    for (const Flow& flow : flows_) {
      if (flow.variable < 0) continue;
      for (std::size_t c = 0; c < flow.choices.size(); ++c) {
        if (flow.choices[c].produced == kReplicated && flow.choices[c].converted.empty())
          result.solution.choice[at(flow.variable)] = static_cast<int>(c);
      }
    }
    result.solution.cost = sharding::price(problem, result.solution.choice);
    result.solution.status = Status::kFeasible;
  }
  const std::vector<int>& choice = result.solution.choice;
  const auto chosen = [&](int variable) -> const Choice& {
    return choices_[at(variable)][at(choice[at(variable)])];
  };
  const auto spec_of = [&](int state) -> const MeshSpec& { return states_[at(state)]; };
  for (const auto& [value, variable] : cache_inputs_)
    set_value(result.plan, graph_.values[at(value)].name, spec_of(chosen(variable).outputs[0]));
  for (const auto& [output, variable] : cache_outputs_) {
    const MeshSpec& spec = spec_of(chosen(variable).outputs[0]);
    if (!is_replicated(spec))
      set_reader(result.plan, graph_.values[at(graph_.outputs[at(output)])].name, {"", -1}, spec);
  }
  for (const auto& [value, state] : given_)
    set_value(result.plan, graph_.values[at(value)].name, spec_of(state));
  for (const auto& [output, state] : returned_)
    set_reader(result.plan, graph_.values[at(graph_.outputs[at(output)])].name, {"", -1}, spec_of(state));
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n] < 0) continue;
    const GraphNode& node = graph_.nodes[at(nodes_[n])];
    const Choice& own = chosen(static_cast<int>(n));
    ChosenNode& described = result.nodes.emplace_back();
    described.node = nodes_[n];
    for (const Strategy* s : own.axes) described.axes.push_back(*s);
    described.cost = node_cost(node, own, costs);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] < 0) continue;
      const GraphValue& value = graph_.values[at(node.outputs[k])];
      if (!value.readers.empty()) set_value(result.plan, value.name, spec_of(own.outputs[k]));
    }
    // Constants in other states than whole.
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] < 0 || own.inputs[k] == kReplicated) continue;
      const GraphValue& value = graph_.values[at(node.inputs[k])];
      if (value.constant)
        set_reader(result.plan, value.name, {plan_name(graph_, node), static_cast<int>(k)},
                   spec_of(own.inputs[k]));
    }
  }
  for (const Flow& flow : flows_) {
    const GraphValue& value = graph_.values[at(flow.value)];
    const int from = flow.producer < 0 ? given(flow) : chosen(flow.producer).outputs[at(flow.output)];
    std::vector<ChosenConversion> conversions;
    for (const Reader& reader : flow.readers) {
      const int to = reader.variable < 0 ? taken(reader, 0) : taken(reader, choice[at(reader.variable)]);
      const bool is_node = reader.variable >= 0 && nodes_[at(reader.variable)] >= 0;
      const std::string name =
          is_node ? plan_name(graph_, graph_.nodes[at(nodes_[at(reader.variable)])]) : "";
      if (to == from) continue;
      if (is_node) set_reader(result.plan, value.name, {name, reader.input}, spec_of(to));
      auto known = std::find_if(conversions.begin(), conversions.end(),
                                [&](const ChosenConversion& c) { return c.to == spec_of(to); });
      if (known == conversions.end()) {
        const auto path = steps(flow.value, from, to, costs);
        ir::internal_check(path.has_value(), "'{}' cannot be converted", value.name);
        Cost cost = 0;
        for (const ConversionStep& step : *path) cost += costs.step(step, mesh_.axes[at(step.axis)].size);
        conversions.push_back({flow.value, spec_of(from), spec_of(to), *path, cost, {}});
        known = conversions.end() - 1;
      }
      known->readers.push_back(name);
    }
    result.conversions.insert(result.conversions.end(), conversions.begin(), conversions.end());
  }
  return result;
}

}  // namespace braid::frontend::sharding
