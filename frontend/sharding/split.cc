#include "frontend/sharding/split.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/import.h"
#include "frontend/model_mesh.h"
#include "frontend/node_row.h"
#include "frontend/schemas.h"
#include "frontend/sharding/onnx_graph.h"
#include "ir/error_numbers.h"
#include "split/split_space.h"

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
    if (a.name() == "group_size") return a.i();
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
    const auto bytes = [&](ValueId v, const Spec& spec) {
      if (!v.valid()) return Cost{0};
      Cost bytes = ir::size_of(graph.values[v].dtype);
      for (const ir::Expr& s : graph.values[v].sizes) bytes = std::min(bytes * size(s), kMostBytes);
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
  std::map<ValueId, Spec> produced;
  std::map<std::pair<NodeId, int>, Spec> taken;  // by node and input
  std::map<NodeId, const PlainNode*> made_of;
  std::map<ValueId, MeshSpec> given;  // graph inputs
  std::map<int, MeshSpec> returned;   // graph outputs by index

  bool met_by(const Graph& graph, NodeId node, const Strategy& s) const {
    const GraphNode& n = graph.nodes[node];
    for (int k = 0; k < count_of(n.inputs); ++k) {
      const auto found = taken.find({node, k});
      if (found != taken.end() && !(s.inputs[k] == found->second)) return false;
    }
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      if (!n.outputs[k].valid() || graph.values[n.outputs[k]].readers.empty()) continue;
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
    if (plan_.mesh.axes[k].size > 1) axes_.push_back(k);
  }
  if (axes_.empty()) axes_.push_back(0);
  if (plan_.mesh.size() == 1) return;
  for (const Plan& axis : plan_.axes) check_names(graph, axis, file_);
  for (const GraphNode& node : graph.nodes) {
    PlainNode& own = nodes_.emplace_back();
    if (node.compile_time) continue;
    own.name = plan_name(graph, node);
    own.op = node.op;
    for (const ValueId v : node.inputs) {
      own.inputs.push_back(v.valid() ? graph.values[v].name : "");
      own.constants.push_back(v.valid() && graph.values[v].constant.has_value());
    }
    for (const ValueId v : node.outputs) {
      if (v.valid() && !graph.values[v].readers.empty()) own.outputs.push_back(graph.values[v].name);
    }
  }
  for (const GraphValue& value : graph.values) {
    if (!value.constant) produced_[value.name] = value.name;
  }
  for (const ValueId v : graph.inputs) inputs_.push_back(graph.values[v].name);
  for (const ValueId v : graph.outputs) outputs_.push_back(graph.values[v].name);
}

namespace {

using NodesOfProtos = std::map<const onnx::NodeProto*, NodeId>;

NodesOfProtos nodes_of_protos(const Graph& graph) {
  NodesOfProtos nodes;
  for (const NodeId n : graph.nodes.ids()) nodes[&proto_of(graph.nodes[n])] = n;
  return nodes;
}

}  // namespace

const ir::MeshAxis& Splitter::axis() const { return plan_.mesh.axes[axes_[stage_]]; }

// Throws UserError kPlanMismatch if the value cannot be in the state.
void Splitter::check(const GraphValue& value, const Plan& plan, const std::string& name,
                     const Spec& spec) const {
  const std::string why = fault(value, spec, plan.ranks);
  if (why.empty() || !request_.obey) return;
  const auto line = plan.value_lines.find(name);
  ir::user_error(
      errors::kPlanMismatch, {.file = file_},
      fmt::format("{}'{}' cannot be {} on axis {}: after the axes before, {}",
                  line == plan.value_lines.end() ? "" : fmt::format("line {} of the plan: ", line->second),
                  name, to_string(spec), axis().name, why));
}

Splitter::Wanted Splitter::wanted(const Model& model, const Graph& graph, const Plan& plan) const {
  Wanted wanted;
  for (const auto& [name, local] : produced_) {
    const ValueId v = graph.find(local);
    if (!v.valid() || graph.values[v].pinned) continue;
    const Spec spec = plan.of_value(name);
    check(graph.values[v], plan, name, spec);
    wanted.produced[v] = spec;
  }
  const NodesOfProtos known = nodes_of_protos(graph);
  for (const PlainNode& node : nodes_) {
    for (const int position : node.nodes) {
      const auto found = known.find(&model.proto.graph().node(position));
      if (found == known.end() || graph.nodes[found->second].compile_time) continue;
      const NodeId n = found->second;
      const std::vector<ValueId>& inputs = graph.nodes[n].inputs;
      wanted.made_of[n] = &node;
      for (int k = 0; k < count_of(node.inputs); ++k) {
        const ValueId v = node.inputs[k].empty() ? ValueId{} : graph.find(node.taken[k]);
        if (!v.valid() || graph.values[v].pinned) continue;
        const Spec own = node.constants[k] ? Spec::replicated() : plan.of_value(node.inputs[k]);
        const Spec spec = plan.of_reader(node.inputs[k], node.name, k, own);
        check(graph.values[v], plan, node.inputs[k], spec);
        // The same input of the same node, or any of those that rules have added.
        const bool same = inputs.size() == node.inputs.size() && inputs[k] == v;
        for (int j = 0; j < count_of(inputs); ++j) {
          if (inputs[j] == v && (!same || j == k)) wanted.taken[{n, j}] = spec;
        }
      }
    }
  }
  for (const std::string& name : inputs_) {
    const ValueId v = graph.find(name);
    if (v.valid()) wanted.given[v] = {plan.of_value(name)};
  }
  for (int k = 0; k < count_of(outputs_); ++k)
    wanted.returned[k] = {plan.of_reader(outputs_[k], "", k, Spec::replicated())};
  return wanted;
}

// Completes the plan with states of what it does not mention.
Plan Splitter::completed(const Graph& graph, const Plan& plan, const Wanted& wanted) const {
  const Mesh line = Mesh::line(plan.ranks);
  SpaceOptions options;
  options.given = wanted.given;
  options.returned = wanted.returned;
  const auto suggest = [&](ValueId v, const Spec& spec) {
    if (!spec.blocks.empty()) options.blocks[{v, spec.dim}].insert(spec.blocks);
  };
  for (const auto& [v, spec] : wanted.produced) suggest(v, spec);
  for (const auto& [use, spec] : wanted.taken) suggest(graph.nodes[use.first].inputs[use.second], spec);
  options.keeps = [&](NodeId node, Combination axes) { return wanted.met_by(graph, node, *axes[0]); };
  const SplitCosts costs = transfer_costs(before_);
  const SplitSpace space(graph, line, options);
  std::string unmet;
  if (!space.unmet().empty()) {
    const auto found = wanted.made_of.find(space.unmet()[0]);
    const std::string name =
        found == wanted.made_of.end() ? plan_name(graph, graph.nodes[space.unmet()[0]]) : found->second->name;
    unmet = fmt::format("the node of '{}' cannot take or compute its states", name);
  } else {
    SplitChoice choice = space.choose(costs);
    if (choice.solution.feasible()) return std::move(choice.plan.axes[0]);
    unmet = "a conversion does not exist";
  }
  if (request_.obey)
    ir::user_error(errors::kPlanMismatch, {.file = file_},
                   fmt::format("plan, on axis {}: {} after the axes before", axis().name, unmet),
                   "give it a state that its rule allows for what the axes before leave");
  // Chooses states as near to the plan as the rules allow.
  options.keeps = nullptr;
  SplitCosts near = costs;
  constexpr Cost kOther = Cost{1} << 42;
  near.node = [&](const Graph& g, const GraphNode& node, const Strategy& s, int ranks) {
    return costs.node(g, node, s, ranks) + (wanted.met_by(g, g.id_of(node), s) ? 0 : kOther);
  };
  return SplitSpace(graph, line, options).choose(near).plan.axes[0];
}

// Where the plain model's nodes and values are after this axis.
void Splitter::follow(const Model& before, const Graph& graph, const LocalProgram& program) {
  const NodesOfProtos known = nodes_of_protos(graph);
  for (const NodeId p : nodes_.ids()) {
    PlainNode& node = nodes_[p];
    if (node.name.empty()) continue;
    std::vector<NodeId> made_of;  // in the model before this axis
    if (stage_ == 0) {
      made_of = {p};
      node.taken = node.inputs;
    }
    for (const int position : node.nodes) {
      const auto found = known.find(&before.proto.graph().node(position));
      if (found != known.end()) made_of.push_back(found->second);
    }
    const std::vector<std::string> taken = node.taken;
    std::vector<int> made;
    for (const NodeId n : made_of) {
      const Emitted& emitted = program.nodes[n];
      const std::vector<ValueId>& inputs = graph.nodes[n].inputs;
      for (std::size_t k = 0; k < taken.size(); ++k) {
        const ValueId v = graph.find(taken[k]);
        for (std::size_t j = 0; j < emitted.inputs.size(); ++j) {
          const bool same = inputs.size() == taken.size() && inputs[k] == v && !taken[k].empty();
          if (v.valid() && inputs[j] == v && (!same || j == k)) node.taken[k] = emitted.inputs[j];
        }
      }
      for (int k = emitted.begin; k < emitted.end; ++k) made.push_back(k);
    }
    node.nodes = std::move(made);
  }
  for (auto& [name, local] : produced_) {
    const ValueId v = graph.find(local);
    if (v.valid()) local = program.names[v];
  }
}

// Marks inputs and outputs with the part that a rank has of them.
void Splitter::tell_parts(const Graph& graph, LocalProgram& program) const {
  const auto tell = [&](onnx::ValueInfoProto& value, const Interface& states) {
    if (stage_ == 0) clear_part(value);
    const auto state = states.find(value.name());
    if (state == states.end()) return;
    std::vector<std::optional<std::int64_t>> sizes;
    for (const ir::Expr& size : graph.values[graph.find(value.name())].sizes)
      sizes.push_back(static_size(size));
    add_part(value, state->second, axis(), sizes);
  };
  onnx::GraphProto& local = *program.model.proto.mutable_graph();
  for (onnx::ValueInfoProto& input : *local.mutable_input()) tell(input, program.inputs);
  for (onnx::ValueInfoProto& output : *local.mutable_output()) tell(output, program.outputs);
}

Model Splitter::next(const Model& model, const Opsets& opsets, const GraphFacts& facts) {
  const Graph graph = make_graph(model, opsets, facts);
  if (stage_ == 0) begin(graph, model.path);
  Plan plan = plan_.axes[axes_[stage_]];
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
