#include "frontend/sharding/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/sharding/apply.h"
#include "frontend/sharding/statement.h"
#include "ir/error_numbers.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

MeshSpec reduced(MeshSpec spec) {
  for (Spec& own : spec) {
    if (own.is_pending()) own = Spec::replicated();
  }
  return spec;
}

class Reading {
 public:
  Reading(const Graph& graph, const DeviceConfiguration& configuration, const Mesh& mesh)
      : path_(configuration.path), graph_(graph), configuration_(configuration), mesh_(mesh) {
    lines_.plan = MeshPlan(mesh);
  }

  FixedLines run() {
    for (const GraphNode& node : graph_.nodes) {
      stated_.emplace_back(node.inputs.size() + node.outputs.size());
      if (const onnx::NodeDeviceConfigurationProto* own = of(proto_of(node))) read(node, *own);
    }
    check_kept();
    check_stages();
    SpaceOptions options;
    options.blocks = lines_.blocks;
    space_.emplace(graph_, mesh_, options);
    delivered_.assign(graph_.values.ids(), {});
    fallback_.assign(graph_.values.ids(), {});
    for (const ValueId v : graph_.inputs) delivered_[v] = whole();
    for (const NodeId n : graph_.nodes.ids()) {
      if (graph_.nodes[n].compile_time) continue;
      if (states_anything(n)) {
        infer(n);
      } else {
        follow(n);
      }
    }
    return std::move(lines_);
  }

 private:
  using States = std::vector<std::optional<MeshSpec>>;

  MeshSpec whole() const { return MeshSpec(mesh_.axes.size()); }

  const onnx::NodeDeviceConfigurationProto* of(const onnx::NodeProto& node) const {
    const onnx::NodeDeviceConfigurationProto* found = nullptr;
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations()) {
      if (own.configuration_id() != configuration_.name) continue;
      if (found != nullptr)
        ir::user_error(errors::kAnnotation, location_of(path_, node),
                       fmt::format("it is annotated twice for the configuration '{}'", configuration_.name),
                       "keep one of the annotations");
      found = &own;
    }
    return found;
  }

  void read(const GraphNode& node, const onnx::NodeDeviceConfigurationProto& own) {
    if (own.has_pipeline_stage()) stages_.emplace(own.pipeline_stage(), &proto_of(node));
    States& states = stated_.back();
    std::set<std::string> seen;
    for (const onnx::ShardingSpecProto& proto : own.sharding_spec()) {
      const std::string& name = proto.tensor_name();
      const auto fail = [&](const std::string& what) {
        ir::user_error(errors::kAnnotation, location_of(path_, proto_of(node)), what,
                       "correct the annotation");
      };
      if (name.empty()) fail("an annotation has no tensor_name");
      if (!seen.insert(name).second) fail(fmt::format("it has two annotations of '{}'", name));
      const ValueId v = graph_.find(name);
      bool found = false;
      std::optional<MeshSpec> spec;
      const auto state = [&](std::size_t k, ValueId value) {
        if (!v.valid() || value != v) return;
        if (!spec) spec = read(node, proto, v);
        states[k] = spec;
        found = true;
      };
      for (std::size_t k = 0; k < node.inputs.size(); ++k) state(k, node.inputs[k]);
      for (std::size_t k = 0; k < node.outputs.size(); ++k) state(node.inputs.size() + k, node.outputs[k]);
      if (!found) fail(fmt::format("'{}' is neither an input nor an output of the node", name));
    }
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (node.inputs[k].valid() && states[k] && !node.compile_time) fix_input(node, k, *states[k]);
    }
  }

  MeshSpec read(const GraphNode& node, const onnx::ShardingSpecProto& proto, ValueId v) {
    const GraphValue& value = graph_.values[v];
    const StatedState stated = stated_state(path_, proto_of(node), proto, value, mesh_);
    for (std::size_t k = 0; k < stated.whole.size(); ++k) {
      const Spec& spec = stated.whole[k];
      std::string why = fault(value, spec, mesh_.axes[k].size);
      if (why.empty() && !spec.is_replicated() && node.compile_time)
        why = "it is computed while compiling and must be whole";
      if (!why.empty())
        ir::user_error(errors::kAnnotation, location_of(path_, proto_of(node)),
                       fmt::format("the annotation of '{}': it cannot be {}: {}", value.name,
                                   in_words(stated.state, mesh_), why),
                       "correct the annotation");
      if (!spec.blocks.empty()) lines_.blocks[{v, spec.dim}].insert(spec.blocks);
    }
    return stated.state;
  }

  void fix_input(const GraphNode& node, int k, const MeshSpec& spec) {
    for (std::size_t a = 0; a < spec.size(); ++a)
      lines_.plan.axes[a].readers[{graph_.values[node.inputs[k]].name, {plan_name(graph_, node), k}}] =
          spec[a];
  }
  void fix_value(ValueId v, const MeshSpec& spec) {
    for (std::size_t a = 0; a < spec.size(); ++a) lines_.plan.axes[a].values[graph_.values[v].name] = spec[a];
  }

  bool states_anything(NodeId n) const {
    return std::any_of(stated_[n].begin(), stated_[n].end(),
                       [](const auto& spec) { return spec.has_value(); });
  }

  // Checks that no annotated operator was replaced by others while the model was read, which loses its
  // statements.
  void check_kept() const {
    for (const std::string& output : configuration_.nodes) {
      const GraphNode* producer = graph_.producer_of(graph_.find(output));
      if (producer == nullptr) continue;  // nothing needs it
      const onnx::NodeProto& node = proto_of(*producer);
      if (of(node) == nullptr)
        ir::user_error(
            errors::kAnnotationForm, location_of(path_, node),
            fmt::format("the annotated node that computes '{}' is a function, or of an old operator set, "
                        "and has been replaced",
                        output),
            "annotate the operators inside, in a model without the function");
    }
  }

  // One stage is no pipeline.
  void check_stages() const {
    if (stages_.size() < 2) return;
    const auto first = stages_.begin(), second = std::next(first);
    ir::user_error(errors::kAnnotationForm, location_of(path_, *second->second),
                   fmt::format("it is in pipeline stage {}, and '{}' in stage {}", second->first,
                               name_of(*first->second), first->first),
                   "programs of several stages are not generated yet: leave out pipeline_stage");
  }

  const MeshSpec& taken(NodeId n, ChoiceId choice, int k) const {
    return space_->taken_state(space_->variable_of(n), choice, k);
  }
  const MeshSpec& produced(NodeId n, ChoiceId choice, int k) const {
    return space_->produced_state(space_->variable_of(n), choice, k);
  }
  IdRange<ChoiceId> choices_of(NodeId n) const { return space_->choices_of(space_->variable_of(n)); }

  // The combinations of a node's rule that take these inputs.
  std::vector<ChoiceId> legal(NodeId n, const States& inputs) const {
    std::vector<ChoiceId> all;
    for (const ChoiceId c : choices_of(n)) {
      bool fits = true;
      for (int k = 0; k < count_of(inputs); ++k)
        fits = fits && (!graph_.nodes[n].inputs[k].valid() || !inputs[k] || taken(n, c, k) == *inputs[k]);
      if (fits) all.push_back(c);
    }
    return all;
  }

  // Handles a node that states something: the states that it takes and leaves.
  void infer(NodeId n) {
    const GraphNode& node = graph_.nodes[n];
    const States& stated = stated_[n];
    States inputs(stated.begin(), stated.begin() + std::ssize(node.inputs));
    for (int k = 0; k < count_of(node.inputs); ++k) {
      const ValueId v = node.inputs[k];
      if (!v.valid() || inputs[k] || graph_.values[v].constant) continue;
      inputs[k] = delivered_[v];
      if (inputs[k] && !graph_.values[v].pinned) fix_input(node, k, *inputs[k]);
    }
    const std::vector<ChoiceId> all = legal(n, inputs);
    if (all.empty()) contradiction(n, inputs, "");
    std::vector<ChoiceId> direct;
    for (const ChoiceId c : all) {
      bool same = true;
      for (int k = 0; k < count_of(node.outputs); ++k) {
        const std::optional<MeshSpec>& output = stated[node.inputs.size() + k];
        same = same && (!output || produced(n, c, k) == *output);
      }
      if (same) direct.push_back(c);
    }
    for (int k = 0; k < count_of(node.outputs); ++k) {
      if (!node.outputs[k].valid()) continue;
      if (const std::optional<MeshSpec>& output = stated[node.inputs.size() + k]) {
        leave(n, inputs, k, *output, all, !direct.empty());
      } else {
        leave_unstated(n, k, direct.empty() ? all : direct);
      }
    }
  }

  void leave(NodeId n, const States& inputs, int k, const MeshSpec& stated, const std::vector<ChoiceId>& all,
             bool direct) {
    const ValueId v = graph_.nodes[n].outputs[k];
    const GraphValue& value = graph_.values[v];
    delivered_[v] = stated;
    if (direct) {
      fix_value(v, stated);
      return;
    }
    const auto convertible = [&](ChoiceId c) {
      const MeshSpec& from = produced(n, c, k);
      for (std::size_t a = 0; a < stated.size(); ++a) {
        const int ranks = mesh_.axes[a].size;
        if (!conversion_steps(from[a], stated[a], value.dtype, ranks, ranks)) return false;
      }
      return true;
    };
    if (std::none_of(all.begin(), all.end(), convertible))
      contradiction(n, inputs, fmt::format(" and leave '{}' {}", value.name, in_words(stated, mesh_)));
    fallback_[v] = stated;
  }

  // Leaves the output in the state that the rule gives, if there is only one; a pending one is reduced at
  // once.
  void leave_unstated(NodeId n, int k, const std::vector<ChoiceId>& all) {
    const ValueId v = graph_.nodes[n].outputs[k];
    const MeshSpec& first = produced(n, all.front(), k);
    if (std::any_of(all.begin(), all.end(), [&](ChoiceId c) { return !(produced(n, c, k) == first); }))
      return;
    delivered_[v] = reduced(first);
    if (is_pending(first)) fallback_[v] = delivered_[v];
  }

  // If a conversion stands between the computed and the stated state of a value, a node that states nothing
  // takes the value as stated if its rule can, else whole.
  void follow(NodeId n) {
    const GraphNode& node = graph_.nodes[n];
    States inputs(node.inputs.size());
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].valid() && !graph_.values[node.inputs[k]].constant)
        inputs[k] = fallback_[node.inputs[k]];
    }
    if (std::none_of(inputs.begin(), inputs.end(), [](const auto& spec) { return spec.has_value(); })) return;
    if (legal(n, inputs).empty()) {
      for (std::optional<MeshSpec>& spec : inputs) {
        if (spec) spec = whole();
      }
    }
    for (int k = 0; k < count_of(inputs); ++k) {
      if (inputs[k]) fix_input(node, k, *inputs[k]);
    }
  }

  [[noreturn]] void contradiction(NodeId n, const States& inputs, const std::string& more) const {
    const GraphNode& node = graph_.nodes[n];
    std::string taken_so;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k] || graph_.values[node.inputs[k]].pinned) continue;
      taken_so += fmt::format("{}'{}' {}", taken_so.empty() ? "" : " and ",
                              graph_.values[node.inputs[k]].name, in_words(*inputs[k], mesh_));
    }
    constexpr int kMostListed = 16;
    const int choices = count_of(choices_of(n));
    std::vector<std::string> possible;
    for (const ChoiceId c : first_ids<ChoiceId>(std::min(choices, kMostListed))) {
      std::vector<std::string> from, to;
      for (int k = 0; k < count_of(node.inputs); ++k) from.push_back(to_string(taken(n, c, k), mesh_));
      for (int k = 0; k < count_of(node.outputs); ++k) to.push_back(to_string(produced(n, c, k), mesh_));
      const char* between = mesh_.has_names() ? " and " : ", ";
      possible.push_back(fmt::format("{} -> {}", fmt::join(from, between), fmt::join(to, between)));
    }
    if (choices > kMostListed) possible.push_back(fmt::format("and {} others", choices - kMostListed));
    ir::user_error(
        errors::kAnnotation, location_of(path_, proto_of(node)),
        fmt::format("the annotations contradict the operator: it cannot take {}{}", taken_so, more),
        fmt::format("it can: {}", fmt::join(possible, "; ")));
  }

  const std::string& path_;
  const Graph& graph_;
  const DeviceConfiguration& configuration_;
  const Mesh& mesh_;
  FixedLines lines_;
  std::optional<SplitSpace> space_;                       // whose choices of a node are what its rule can
  IdVector<NodeId, States> stated_;                       // inputs, then outputs
  IdVector<ValueId, std::optional<MeshSpec>> delivered_;  // as its producer leaves it, where that is known
  IdVector<ValueId, std::optional<MeshSpec>> fallback_;   // the same, where it is not what the rule computes
  std::map<int, const onnx::NodeProto*> stages_;          // the first node of each
};

}  // namespace

FixedLines annotated_lines(const Graph& graph, const DeviceConfiguration& configuration, const Mesh& mesh) {
  return Reading(graph, configuration, mesh).run();
}

std::shared_ptr<const Annotations> annotations_of(std::shared_ptr<const DeviceConfiguration> configuration) {
  if (configuration == nullptr) return nullptr;
  const auto lines = [configuration](const Graph& graph, const Mesh& mesh) {
    return annotated_lines(graph, *configuration, mesh);
  };
  return std::make_shared<const Annotations>(Annotations{configuration->mesh, lines});
}

}  // namespace braid::frontend::sharding
