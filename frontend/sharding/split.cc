#include "frontend/sharding/split.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/import.h"
#include "frontend/model_mesh.h"
#include "frontend/node_row.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"
#include "split/space.h"

namespace braid::frontend::sharding {

const onnx::NodeProto* find_communication(const onnx::GraphProto& graph, const Opsets& opsets) {
  for (const onnx::NodeProto& node : graph.node()) {
    const OpSpec* spec = row_of(node, opsets);
    if (node.domain() == kBraidDomain || (spec != nullptr && spec->effect)) return &node;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      if (const onnx::NodeProto* inner = find_communication(attribute.g(), opsets)) return inner;
    }
  }
  return nullptr;
}

void require_plain(const Model& model, const Opsets& opsets) {
  if (const onnx::NodeProto* node = find_communication(model.proto.graph(), opsets))
    ir::user_error(errors::kCannotSplit, location_of(model.path, *node),
                   "a model that communicates is split already",
                   "compile it with --ranks, or split a model without collectives");
  for (const auto& [name, tensor] : model.initializers) {
    if (!tensor.data.same_on_all_ranks())
      ir::user_error(errors::kCannotSplit, {.file = model.path},
                     fmt::format("the weight '{}' differs between the ranks' files", name),
                     "a model with one file per rank is split already: compile it with --ranks");
  }
}

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Bytes that are transferred; they order the steps of a conversion on several axes. Independent of the
// machine, so that a plan is one program.
Cost transferred(StepKind kind, std::int64_t bytes, int ranks) {
  switch (kind) {
    case StepKind::all_reduce:
      return 2 * (ranks - 1) * bytes / ranks;
    case StepKind::all_gather:
      return (ranks - 1) * bytes;
    case StepKind::reduce_scatter:
    case StepKind::all_to_all:
      return (ranks - 1) * bytes / ranks;
    case StepKind::slice:
    case StepKind::permute:
      break;
  }
  return 0;
}

int group_size(const GraphNode& node, int world) {
  for (const onnx::AttributeProto& a : proto_of(node).attribute()) {
    if (a.name() == "group_size") return static_cast<int>(a.i());
  }
  return world;
}

// A byte that crosses a link costs more than any that stays. Starting a collective takes as long as some
// bytes do, so small tensors take the fewest collectives and large ones those with the fewest bytes.
constexpr Cost kLink = 1000, kLatency = kLink * 65536;
constexpr Cost kMostBytes = Cost{1} << 34;

SplitCosts transfer_costs(int world) {
  SplitCosts costs;
  costs.size = [](const ir::Expr& size) {
    constexpr std::int64_t kMostUnknown = 1024;
    return static_size(size).value_or(std::clamp<std::int64_t>(ir::bounds(size).max, 0, kMostUnknown));
  };
  const auto price = [](StepKind kind, std::int64_t bytes, int ranks) {
    const Cost far = transferred(kind, bytes, ranks);
    return far == 0 ? std::min(bytes, kMostBytes) : kLatency + std::min(far, kMostBytes) * kLink;
  };
  costs.step = [price](const ConversionStep& step, int ranks) { return price(step.kind, step.bytes, ranks); };
  costs.node = [price, world, size = costs.size](const Graph& graph, const GraphNode& node,
                                                 const Strategy& strategy, int ranks) -> Cost {
    const auto bytes = [&](int v, const Spec& spec) {
      if (v < 0) return Cost{0};
      Cost bytes = ir::size_of(graph.values[at(v)].dtype);
      for (const ir::Expr& s : graph.values[at(v)].sizes) bytes = std::min(bytes * size(s), kMostBytes);
      return bytes / (spec.is_split() ? ranks : 1);
    };
    if (const auto kind = rule_of(node).exchange)
      return price(*kind, bytes(node.inputs[0], strategy.inputs[0]), group_size(node, world));
    Cost sum = 0;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) sum += bytes(node.outputs[k], strategy.outputs[k]);
    return sum;
  };
  return costs;
}

}  // namespace

// States of one axis in the model so far.
struct Splitter::Wanted {
  std::map<int, Spec> produced;               // by value
  std::map<std::pair<int, int>, Spec> taken;  // by node and input
  std::map<int, const PlainNode*> made_of;    // by node
  std::map<int, MeshSpec> given, returned;    // graph inputs by value, outputs by index

  bool met_by(const Graph& graph, int node, const Strategy& s) const {
    const GraphNode& n = graph.nodes[at(node)];
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const auto found = taken.find({node, static_cast<int>(k)});
      if (found != taken.end() && !(s.inputs[k] == found->second)) return false;
    }
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k] < 0 || graph.values[at(n.outputs[k])].readers.empty()) continue;
      const auto found = produced.find(n.outputs[k]);
      if (found != produced.end() && !(s.outputs[k] == found->second)) return false;
    }
    return true;
  }
};

Splitter::Splitter(const SplitRequest& request, int ranks) : request_(request), ranks_(ranks) {
  if (request.plan.empty()) return;
  plan_ = parse_mesh_plan(request.plan, request.plan_file);
}

// Sets the plan, and remembers the nodes and values that it names.
void Splitter::begin(const Graph& graph, const std::string& path) {
  file_ = request_.plan_file.empty() ? path : request_.plan_file;
  if (plan_.axes.empty()) {
    const Mesh mesh = request_.mesh.axes.empty() ? Mesh::line(ranks_) : request_.mesh;
    plan_ = request_.choose ? request_.choose(graph, mesh) : MeshPlan(mesh);
  }
  if (plan_.ranks() != ranks_)
    ir::user_error(errors::kPlanMismatch, {.file = file_},
                   fmt::format("the plan is for {} ranks, but there are {}", plan_.ranks(), ranks_),
                   "give the number of ranks of the plan");
  for (int k = 0; k < plan_.mesh.size(); ++k) {
    if (plan_.mesh.axes[at(k)].size > 1) axes_.push_back(k);
  }
  if (axes_.empty()) axes_.push_back(0);
  if (plan_.mesh.size() == 1) return;
  for (const Plan& axis : plan_.axes) check_names(graph, axis, file_);
  for (const GraphNode& node : graph.nodes) {
    PlainNode& own = nodes_.emplace_back();
    if (node.compile_time) continue;
    own.name = plan_name(graph, node);
    own.op = node.op;
    for (const int v : node.inputs) {
      own.inputs.push_back(v < 0 ? "" : graph.values[at(v)].name);
      own.constants.push_back(v >= 0 && graph.values[at(v)].constant.has_value());
    }
    for (const int v : node.outputs) {
      if (v >= 0 && !graph.values[at(v)].readers.empty()) own.outputs.push_back(graph.values[at(v)].name);
    }
  }
  for (const GraphValue& value : graph.values) {
    if (!value.constant) produced_[value.name] = value.name;
  }
  for (const int v : graph.inputs) inputs_.push_back(graph.values[at(v)].name);
  for (const int v : graph.outputs) outputs_.push_back(graph.values[at(v)].name);
}

Splitter::Wanted Splitter::wanted(const Model& model, const Graph& graph, const Plan& plan) const {
  Wanted wanted;
  std::map<const onnx::NodeProto*, int> index;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) index[&proto_of(graph.nodes[n])] = static_cast<int>(n);
  const auto check = [&](int v, const std::string& name, const Spec& spec) {
    const std::string why = fault(graph.values[at(v)], spec, plan.ranks);
    if (why.empty() || !request_.obey) return;
    const auto line = plan.value_lines.find(name);
    ir::user_error(
        errors::kPlanMismatch, {.file = file_},
        fmt::format("{}'{}' cannot be {} on axis {}: after the axes before, {}",
                    line == plan.value_lines.end() ? "" : fmt::format("line {} of the plan: ", line->second),
                    name, to_string(spec), plan_.mesh.axes[at(axes_[at(stage_)])].name, why));
  };
  for (const auto& [name, local] : produced_) {
    const int v = graph.find(local);
    if (v < 0 || graph.values[at(v)].pinned) continue;
    const Spec spec = plan.of_value(name);
    check(v, name, spec);
    wanted.produced[v] = spec;
  }
  for (const PlainNode& node : nodes_) {
    for (const int position : node.nodes) {
      const auto found = index.find(&model.proto.graph().node(position));
      if (found == index.end() || graph.nodes[at(found->second)].compile_time) continue;
      const int n = found->second;
      const std::vector<int>& inputs = graph.nodes[at(n)].inputs;
      wanted.made_of[n] = &node;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const int v = node.inputs[k].empty() ? -1 : graph.find(node.taken[k]);
        if (v < 0 || graph.values[at(v)].pinned) continue;
        const Spec own = node.constants[k] ? Spec::replicated() : plan.of_value(node.inputs[k]);
        const Spec spec = plan.of_reader(node.inputs[k], node.name, static_cast<int>(k), own);
        check(v, node.inputs[k], spec);
        // The same input of the same node, or any of those that rules have added.
        const bool same = inputs.size() == node.inputs.size() && inputs[k] == v;
        for (std::size_t j = 0; j < inputs.size(); ++j) {
          if (inputs[j] == v && (!same || j == k)) wanted.taken[{n, static_cast<int>(j)}] = spec;
        }
      }
    }
  }
  for (const std::string& name : inputs_) {
    const int v = graph.find(name);
    if (v >= 0) wanted.given[v] = {plan.of_value(name)};
  }
  for (std::size_t k = 0; k < outputs_.size(); ++k)
    wanted.returned[static_cast<int>(k)] = {
        plan.of_reader(outputs_[k], "", static_cast<int>(k), Spec::replicated())};
  return wanted;
}

// Completes the plan with states of what it does not mention.
Plan Splitter::completed(const Graph& graph, const Plan& plan, const Wanted& wanted) const {
  const Mesh axis = Mesh::line(plan.ranks);
  SpaceOptions options;
  options.given = wanted.given;
  options.returned = wanted.returned;
  const auto suggest = [&](int v, const Spec& spec) {
    if (!spec.blocks.empty()) options.blocks[{v, spec.dim}].insert(spec.blocks);
  };
  for (const auto& [v, spec] : wanted.produced) suggest(v, spec);
  for (const auto& [use, spec] : wanted.taken)
    suggest(graph.nodes[at(use.first)].inputs[at(use.second)], spec);
  options.keeps = [&](int node, Combination axes) { return wanted.met_by(graph, node, *axes[0]); };
  const SplitCosts costs = transfer_costs(before_);
  const SplitSpace space(graph, axis, options);
  std::string unmet;
  if (!space.unmet().empty()) {
    const auto found = wanted.made_of.find(space.unmet()[0]);
    const std::string name = found == wanted.made_of.end()
                                 ? plan_name(graph, graph.nodes[at(space.unmet()[0])])
                                 : found->second->name;
    unmet = fmt::format("the node of '{}' cannot take or compute its states", name);
  } else {
    SplitChoice choice = space.choose(costs);
    if (choice.solution.feasible()) return std::move(choice.plan.axes[0]);
    unmet = "a conversion does not exist";
  }
  if (request_.obey)
    ir::user_error(errors::kPlanMismatch, {.file = file_},
                   fmt::format("plan, on axis {}: {} after the axes before",
                               plan_.mesh.axes[at(axes_[at(stage_)])].name, unmet),
                   "give it a state that its rule allows for what the axes before leave");
  // Chooses states as near to the plan as the rules allow.
  options.keeps = nullptr;
  SplitCosts near = costs;
  constexpr Cost kOther = Cost{1} << 42;
  near.node = [&](const Graph& g, const GraphNode& node, const Strategy& s, int ranks) {
    const int n = static_cast<int>(&node - g.nodes.data());
    return costs.node(g, node, s, ranks) + (wanted.met_by(g, n, s) ? 0 : kOther);
  };
  return SplitSpace(graph, axis, options).choose(near).plan.axes[0];
}

// Where the plain model's nodes and values are after this axis.
void Splitter::follow(const Model& before, const Graph& graph, const LocalProgram& program) {
  std::map<const onnx::NodeProto*, int> index;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) index[&proto_of(graph.nodes[n])] = static_cast<int>(n);
  for (std::size_t p = 0; p < nodes_.size(); ++p) {
    PlainNode& node = nodes_[p];
    if (node.name.empty()) continue;
    const bool first = stage_ == 0;
    std::vector<int> made_of = node.nodes, made;
    if (first) made_of = {static_cast<int>(p)};
    std::vector<std::string> taken = first ? node.inputs : node.taken;
    node.taken = taken;
    for (const int position : made_of) {
      const auto found = first ? index.end() : index.find(&before.proto.graph().node(position));
      if (!first && found == index.end()) continue;
      const int n = first ? position : found->second;
      const Emitted& emitted = program.nodes[at(n)];
      for (std::size_t k = 0; k < taken.size(); ++k) {
        const int v = graph.find(taken[k]);
        const std::vector<int>& inputs = graph.nodes[at(n)].inputs;
        for (std::size_t j = 0; j < emitted.inputs.size(); ++j) {
          const bool same = inputs.size() == taken.size() && inputs[k] == v && !taken[k].empty();
          if (v >= 0 && inputs[j] == v && (!same || j == k)) node.taken[k] = emitted.inputs[j];
        }
      }
      for (int k = emitted.begin; k < emitted.end; ++k) made.push_back(k);
    }
    node.nodes = std::move(made);
  }
  for (auto& [name, local] : produced_) {
    const int v = graph.find(local);
    if (v >= 0) local = program.names[at(v)];
  }
}

// Marks inputs and outputs with the part that a rank has of them.
void Splitter::tell_parts(const Graph& graph, LocalProgram& program) const {
  const ir::MeshAxis& axis = plan_.mesh.axes[at(axes_[at(stage_)])];
  const auto tell = [&](onnx::ValueInfoProto& value, const Interface& states) {
    if (stage_ == 0) clear_part(value);
    const auto state = states.find(value.name());
    if (state == states.end()) return;
    std::vector<std::optional<std::int64_t>> sizes;
    for (const ir::Expr& size : graph.values[at(graph.find(value.name()))].sizes)
      sizes.push_back(static_size(size));
    add_part(value, state->second, axis, sizes);
  };
  onnx::GraphProto& local = *program.model.proto.mutable_graph();
  for (onnx::ValueInfoProto& input : *local.mutable_input()) tell(input, program.inputs);
  for (onnx::ValueInfoProto& output : *local.mutable_output()) tell(output, program.outputs);
}

Model Splitter::next(const Model& model, const Opsets& opsets, const GraphFacts& facts) {
  const Graph graph = make_graph(model, opsets, facts);
  if (stage_ == 0) begin(graph, model.path);
  Plan plan = plan_.axes[at(axes_[at(stage_)])];
  if (stage_ > 0) plan = completed(graph, plan, wanted(model, graph, plan));
  const ResolvedPlan resolved = resolve(graph, plan, plan.ranks, file_);
  if (stage_ == 0 && request_.resolved) request_.resolved(model, graph, plan_);
  LocalProgram program = apply(model, graph, resolved, plan.ranks, before_, request_.weights);
  if (request_.report) request_.report(graph, plan, program.inputs, program.outputs);
  tell_parts(graph, program);
  if (plan_.mesh.size() > 1) follow(model, graph, program);
  before_ *= plan.ranks;
  ++stage_;
  if (done()) set_mesh(program.model.proto, plan_.mesh.axes);
  return std::move(program.model);
}

std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file,
                                                 bool weights) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = text;
  request->plan_file = file;
  request->obey = !file.empty();
  request->weights = weights ? Weights::cut : Weights::any_bytes;
  return request;
}

}  // namespace braid::frontend::sharding
