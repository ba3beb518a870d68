#include "frontend/sharding/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "frontend/device_errors.h"
#include "frontend/load_ranks.h"
#include "frontend/sharding/convert.h"

namespace braid::frontend::sharding {
namespace {

using Proto = onnx::ShardingSpecProto;

constexpr int kFirstIrVersion = 11;
constexpr const char* kName = "braid";

std::size_t at(int k) { return static_cast<std::size_t>(k); }

std::string listed(const std::vector<std::int64_t>& devices) {
  return fmt::format("{} {}", devices.size() == 1 ? "device" : "devices", fmt::join(devices, ", "));
}

std::string divisors_of(std::int64_t size) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= size && d <= 1024; ++d) {
    if (size % d == 0) all.push_back(d);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

// "split along axis 1 over devices 0, 1", as people who wrote an annotation know it.
std::string in_words(const Spec& spec, int devices) {
  if (spec.is_pending()) return fmt::format("a pending {}", to_string(spec.reduce));
  std::vector<std::int64_t> all(at(devices));
  std::iota(all.begin(), all.end(), 0);
  if (spec.is_replicated()) return "whole on " + listed(all);
  const std::string blocks =
      spec.blocks.empty() ? "" : fmt::format(" in blocks of {}", fmt::join(spec.blocks, ", "));
  return fmt::format("split along axis {}{} over {}", spec.dim, blocks, listed(all));
}

// What one node says of one tensor.
class Statement {
 public:
  Statement(const std::string& path, const onnx::NodeProto& node, const Proto& proto, const GraphValue& value,
            int devices)
      : path_(path), node_(node), proto_(proto), value_(value), devices_(devices) {}

  Spec read() const {
    const std::vector<std::int64_t> entries = read_devices();
    std::optional<Spec> split;
    std::int64_t shards = 1;
    std::set<int> axes;
    for (const onnx::ShardedDimProto& dim : proto_.sharded_dim()) {
      const int axis = read_axis(dim);
      if (!axes.insert(axis).second) fail(fmt::format("axis {} is given twice", axis));
      if (const std::optional<Spec> spec = read_dim(dim, axis, shards)) {
        if (split) {
          lack(fmt::format("axes {} and {} are both split", split->dim, axis),
               "the devices form one mesh axis: split one axis of the tensor over all of them");
        }
        split = spec;
      }
    }
    check_devices(entries, shards, split ? split->dim : -1);
    return split ? *split : Spec::replicated();
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "correct the annotation") const {
    ir::user_error(kAnnotation, location_of(path_, node_),
                   fmt::format("the annotation of '{}': {}", value_.name, what), hint);
  }
  [[noreturn]] void lack(const std::string& what, const std::string& hint) const {
    ir::user_error(kAnnotationForm, location_of(path_, node_),
                   fmt::format("the annotation of '{}': {}", value_.name, what), hint);
  }

  // The devices, entry by entry; an entry of several devices holds copies of one shard.
  struct Entry {
    std::vector<std::int64_t> devices;
  };
  std::vector<Entry> entries() const {
    std::map<std::int64_t, std::vector<std::int64_t>> groups;
    for (const onnx::IntIntListEntryProto& entry : proto_.index_to_device_group_map()) {
      if (!entry.has_key() || entry.key() >= 0)
        fail(fmt::format("the key {} of a group of devices is not negative", entry.key()),
             "numbers from 0 on are devices: groups have the keys -1, -2, ...");
      std::vector<std::int64_t> members(entry.value().begin(), entry.value().end());
      if (members.empty()) fail(fmt::format("group {} has no devices", entry.key()));
      if (!groups.emplace(entry.key(), std::move(members)).second)
        fail(fmt::format("group {} is given twice", entry.key()));
    }
    std::vector<Entry> result;
    for (const std::int64_t device : proto_.device()) {
      if (device >= 0) {
        result.push_back({{device}});
        continue;
      }
      const auto group = groups.find(device);
      if (group == groups.end()) fail(fmt::format("there is no group {}", device));
      result.push_back({group->second});
    }
    return result;
  }

  // Each device once: entry by entry. Empty: not given, which stands for all of the configuration.
  std::vector<std::int64_t> read_devices() const {
    std::vector<std::int64_t> all;
    for (const Entry& entry : entries()) {
      for (const std::int64_t device : entry.devices) {
        if (device < 0 || device >= devices_)
          fail(fmt::format("there is no device {}: the configuration has {}", device, devices_));
        if (std::find(all.begin(), all.end(), device) != all.end())
          fail(fmt::format("device {} is given twice", device));
        all.push_back(device);
      }
    }
    return all;
  }

  int read_axis(const onnx::ShardedDimProto& dim) const {
    if (!dim.has_axis()) fail("a sharded dimension has no axis");
    const int rank = value_.rank();
    if (dim.axis() < -rank || dim.axis() >= rank)
      fail(fmt::format("there is no axis {}: the tensor has {} dimensions", dim.axis(), rank));
    return static_cast<int>(dim.axis() < 0 ? dim.axis() + rank : dim.axis());
  }

  // nullopt if the axis is not split. `shards` is multiplied.
  std::optional<Spec> read_dim(const onnx::ShardedDimProto& dim, int axis, std::int64_t& shards) const {
    if (dim.simple_sharding_size() == 0) fail(fmt::format("axis {} has no simple_sharding", axis));
    const std::optional<std::int64_t> size = static_size(value_.sizes[at(axis)]);
    const bool factored = dim.simple_sharding_size() > 1;
    std::int64_t before = 1, after = 1, own = 0, product = 1;
    std::int64_t parts = 1;
    for (const onnx::SimpleShardedDimProto& factor : dim.simple_sharding()) {
      if (!factor.has_num_shards() || factor.num_shards() < 1)
        fail(fmt::format("axis {} has {} shards", axis, factor.num_shards()),
             "num_shards must be at least 1");
      if (factored && !factor.has_dim_value())
        lack(fmt::format("axis {} has a factor without a size", axis), "give each factor its dim_value");
      const std::int64_t extent = factor.has_dim_value() ? factor.dim_value() : size.value_or(0);
      if (factor.has_dim_value() && extent < 1)
        fail(fmt::format("axis {} has a factor of size {}", axis, extent));
      if (__builtin_mul_overflow(product, extent, &product))
        fail(fmt::format("axis {}: the size overflows", axis));
      if (__builtin_mul_overflow(shards, factor.num_shards(), &shards))
        fail(fmt::format("axis {}: the number of shards overflows", axis));
      if (factor.num_shards() > 1) {
        if (parts > 1)
          lack(fmt::format("two factors of axis {} are split", axis),
               "the devices form one mesh axis: split one factor over all of them");
        parts = factor.num_shards();
        own = extent;
        after = 1;
      } else {
        (parts > 1 ? after : before) *= extent;
      }
    }
    const bool named = dim.simple_sharding(0).has_dim_value();
    if (named && size && product != *size)
      fail(fmt::format("axis {} has the size {}, not {}", axis, *size, product));
    if (parts == 1) return std::nullopt;
    if (!size)
      fail(fmt::format("axis {} is split into {} parts, but its size is known only at run time", axis, parts),
           "fix the dimension with --dim NAME=SIZE, or split another axis");
    if (!factored) own = *size;
    if (own == 0) fail(fmt::format("axis {} has no elements to split", axis));
    if (own % parts != 0)
      fail(fmt::format("axis {} of size {} cannot be cut into {} equal parts", axis, own, parts),
           fmt::format("parts are equal; {} can be cut into {}", own, divisors_of(own)));
    // A factor behind others is a block that repeats.
    if (before > 4096)
      lack(fmt::format("axis {} has {} blocks", axis, before), "split the factor before them");
    Blocks blocks(static_cast<std::size_t>(before), own * after);
    return Spec::split(axis, std::move(blocks));
  }

  void check_devices(const std::vector<std::int64_t>& flat, std::int64_t shards, int axis) const {
    const std::vector<Entry> all = entries();
    const std::string where = axis < 0 ? "" : fmt::format(" along axis {}", axis);
    const auto count = static_cast<std::int64_t>(all.empty() ? at(devices_) : all.size());
    if (shards > 1 && shards != count)
      fail(fmt::format("{} shards{} on {}", shards, where,
                       all.empty() ? fmt::format("the {} devices of the configuration", devices_)
                                   : fmt::format("{} entries of device ({})", count, listed(flat))),
           "the product of the numbers of shards must be the number of entries");
    if (all.empty()) return;
    if (static_cast<int>(flat.size()) < devices_) {
      std::vector<std::int64_t> without;
      for (std::int64_t d = 0; d < devices_; ++d) {
        if (std::find(flat.begin(), flat.end(), d) == flat.end()) without.push_back(d);
      }
      lack(fmt::format("{} hold{} nothing of it", listed(without), without.size() == 1 ? "s" : ""),
           "all devices run one program: every one of the configuration needs a part or a copy");
    }
    if (shards == 1) return;
    if (std::any_of(all.begin(), all.end(), [](const Entry& entry) { return entry.devices.size() > 1; }))
      lack(fmt::format("{} shards{}, each with copies on several devices", shards, where),
           "the devices form one mesh axis: a tensor is split over all of them, or whole on each");
    if (!std::is_sorted(flat.begin(), flat.end()))
      lack(fmt::format("its shards{} lie on {}, in this order", where, listed(flat)),
           "shard k lies on device k: list the devices in ascending order");
  }

  const std::string& path_;
  const onnx::NodeProto& node_;
  const Proto& proto_;
  const GraphValue& value_;
  int devices_;
};

class Annotations {
 public:
  Annotations(const Graph& graph, const DeviceConfiguration& configuration)
      : path_(configuration.path), graph_(graph), configuration_(configuration) {
    lines_.ranks = configuration.devices;
  }

  Plan run() {
    for (const GraphNode& node : graph_.nodes) {
      stated_.emplace_back(node.inputs.size() + node.outputs.size());
      if (const onnx::NodeDeviceConfigurationProto* own = of(*node.proto)) read(node, *own);
    }
    check_kept();
    check_stages();
    candidates_ = block_candidates(graph_, ranks());
    for (const auto& [key, spec] : lines_.readers) {
      if (!spec.blocks.empty()) candidates_[{graph_.find(key.first), spec.dim}].insert(spec.blocks);
    }
    delivered_.resize(graph_.values.size());
    fallback_.resize(graph_.values.size());
    for (const int v : graph_.inputs) delivered_[at(v)] = Spec::replicated();
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].compile_time) continue;
      if (states_anything(n)) {
        infer(n);
      } else {
        follow(graph_.nodes[n]);
      }
    }
    return std::move(lines_);
  }

 private:
  using States = std::vector<std::optional<Spec>>;

  int ranks() const { return configuration_.devices; }

  const onnx::NodeDeviceConfigurationProto* of(const onnx::NodeProto& node) const {
    const onnx::NodeDeviceConfigurationProto* found = nullptr;
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations()) {
      if (own.configuration_id() != configuration_.name) continue;
      if (found != nullptr)
        ir::user_error(kAnnotation, location_of(path_, node),
                       fmt::format("it is annotated twice for the configuration '{}'", configuration_.name),
                       "keep one of the annotations");
      found = &own;
    }
    return found;
  }

  void read(const GraphNode& node, const onnx::NodeDeviceConfigurationProto& own) {
    if (own.has_pipeline_stage()) stages_.emplace(own.pipeline_stage(), node.proto);
    States& states = stated_.back();
    std::set<std::string> seen;
    for (const Proto& proto : own.sharding_spec()) {
      const std::string& name = proto.tensor_name();
      const auto fail = [&](const std::string& what) {
        ir::user_error(kAnnotation, location_of(path_, *node.proto), what, "correct the annotation");
      };
      if (name.empty()) fail("an annotation has no tensor_name");
      if (!seen.insert(name).second) fail(fmt::format("it has two annotations of '{}'", name));
      const int v = graph_.find(name);
      bool found = false;
      std::optional<Spec> spec;
      const auto state = [&](std::size_t k, int value) {
        if (v < 0 || value != v) return;
        if (!spec) {
          spec = Statement(path_, *node.proto, proto, graph_.values[at(v)], ranks()).read();
          check_possible(node, graph_.values[at(v)], *spec);
        }
        states[k] = spec;
        found = true;
      };
      for (std::size_t k = 0; k < node.inputs.size(); ++k) state(k, node.inputs[k]);
      for (std::size_t k = 0; k < node.outputs.size(); ++k) state(node.inputs.size() + k, node.outputs[k]);
      if (!found) fail(fmt::format("'{}' is neither an input nor an output of the node", name));
    }
    fix_inputs(node, states);
  }

  void check_possible(const GraphNode& node, const GraphValue& value, const Spec& spec) const {
    std::string why = fault(value, spec, ranks());
    if (why.empty() && !spec.is_replicated() && node.compile_time)
      why = "it is computed while compiling and must be whole";
    if (why.empty()) return;
    ir::user_error(
        kAnnotation, location_of(path_, *node.proto),
        fmt::format("the annotation of '{}': it cannot be {}: {}", value.name, in_words(spec, ranks()), why),
        "correct the annotation");
  }

  void fix_inputs(const GraphNode& node, const States& states) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] >= 0 && states[k] && !node.compile_time) fix_input(node, k, *states[k]);
    }
  }
  void fix_input(const GraphNode& node, std::size_t k, const Spec& spec) {
    lines_.readers[{graph_.values[at(node.inputs[k])].name, {plan_name(graph_, node), static_cast<int>(k)}}] =
        spec;
  }

  bool states_anything(std::size_t n) const {
    return std::any_of(stated_[n].begin(), stated_[n].end(),
                       [](const auto& spec) { return spec.has_value(); });
  }

  // Operators that are spelled out while the model is read lose what was said of them.
  void check_kept() const {
    for (const std::string& output : configuration_.nodes) {
      const int v = graph_.find(output);
      if (v < 0 || graph_.values[at(v)].producer < 0) continue;  // nothing needs it
      const onnx::NodeProto& node = *graph_.nodes[at(graph_.values[at(v)].producer)].proto;
      if (of(node) == nullptr)
        ir::user_error(
            kAnnotationForm, location_of(path_, node),
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
    ir::user_error(kAnnotationForm, location_of(path_, *second->second),
                   fmt::format("it is in pipeline stage {}, and '{}' in stage {}", second->first,
                               name_of(*first->second), first->first),
                   "programs of several stages are not generated yet: leave out pipeline_stage");
  }

  // The combinations of a node's rule that take these inputs.
  std::vector<Strategy> legal(const GraphNode& node, const States& inputs) const {
    std::vector<Strategy> all = strategies(graph_, node, ranks(), candidates_);
    std::erase_if(all, [&](const Strategy& s) {
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] < 0) continue;
        if (inputs[k] && !(s.inputs[k] == *inputs[k])) return true;
        const GraphValue& value = graph_.values[at(node.inputs[k])];
        if (s.inputs[k].is_replicated()) continue;
        if (value.pinned || (value.constant && !can_shard(*value.constant, s.inputs[k]))) return true;
      }
      return false;
    });
    return all;
  }

  // A node that states something: what it takes and leaves.
  void infer(std::size_t n) {
    const GraphNode& node = graph_.nodes[n];
    States inputs(stated_[n].begin(), stated_[n].begin() + static_cast<std::ptrdiff_t>(node.inputs.size()));
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const int v = node.inputs[k];
      if (v < 0 || inputs[k] || graph_.values[at(v)].constant) continue;
      inputs[k] = delivered_[at(v)];
      if (inputs[k] && !graph_.values[at(v)].pinned) fix_input(node, k, *inputs[k]);
    }
    const std::vector<Strategy> all = legal(node, inputs);
    if (all.empty()) contradiction(node, inputs, "");
    std::vector<const Strategy*> direct;
    for (const Strategy& s : all) {
      bool same = true;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const std::optional<Spec>& stated = stated_[n][node.inputs.size() + k];
        same &= !stated || s.outputs[k] == *stated;
      }
      if (same) direct.push_back(&s);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const int v = node.outputs[k];
      if (v < 0) continue;
      const std::optional<Spec>& stated = stated_[n][node.inputs.size() + k];
      if (stated) {
        leave(node, inputs, v, k, *stated, all, !direct.empty());
      } else {
        leave_unstated(v, k, direct.empty() ? all : strategies_of(direct));
      }
    }
  }

  static std::vector<Strategy> strategies_of(const std::vector<const Strategy*>& list) {
    std::vector<Strategy> all;
    for (const Strategy* s : list) all.push_back(*s);
    return all;
  }

  void leave(const GraphNode& node, const States& inputs, int v, std::size_t k, const Spec& stated,
             const std::vector<Strategy>& all, bool direct) {
    const GraphValue& value = graph_.values[at(v)];
    delivered_[at(v)] = stated;
    if (direct) {
      lines_.values[value.name] = stated;
      return;
    }
    const bool reachable = std::any_of(all.begin(), all.end(), [&](const Strategy& s) {
      return conversion_steps(s.outputs[k], stated, value.dtype, ranks(), ranks()).has_value();
    });
    if (!reachable)
      contradiction(node, inputs, fmt::format(" and leave '{}' {}", value.name, in_words(stated, ranks())));
    fallback_[at(v)] = stated;
  }

  // What the rule gives, if that is one state; a pending one is reduced at once.
  void leave_unstated(int v, std::size_t k, const std::vector<Strategy>& all) {
    const Spec& first = all.front().outputs[k];
    const bool same =
        std::all_of(all.begin(), all.end(), [&](const Strategy& s) { return s.outputs[k] == first; });
    if (!same) return;
    delivered_[at(v)] = first.is_pending() ? Spec::replicated() : first;
    if (first.is_pending()) fallback_[at(v)] = Spec::replicated();
  }

  // A node that states nothing takes values as they are left where a conversion stands between that and what is computed: as
  // stated if its rule can, else whole.
  void follow(const GraphNode& node) {
    States inputs(node.inputs.size());
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] >= 0 && !graph_.values[at(node.inputs[k])].constant)
        inputs[k] = fallback_[at(node.inputs[k])];
    }
    if (std::none_of(inputs.begin(), inputs.end(), [](const auto& spec) { return spec.has_value(); })) return;
    if (legal(node, inputs).empty()) {
      for (std::optional<Spec>& spec : inputs) {
        if (spec) spec = Spec::replicated();
      }
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k]) fix_input(node, k, *inputs[k]);
    }
  }

  [[noreturn]] void contradiction(const GraphNode& node, const States& inputs,
                                  const std::string& more) const {
    std::string taken;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k] || graph_.values[at(node.inputs[k])].pinned) continue;
      taken += fmt::format("{}'{}' {}", taken.empty() ? "" : " and ", graph_.values[at(node.inputs[k])].name,
                           in_words(*inputs[k], ranks()));
    }
    std::string legal;
    for (const Strategy& s : strategies(graph_, node, ranks(), candidates_)) {
      std::string text;
      for (const Spec& spec : s.inputs) text += (text.empty() ? "" : ", ") + to_string(spec);
      text += " -> ";
      for (std::size_t k = 0; k < s.outputs.size(); ++k)
        text += (k == 0 ? "" : ", ") + to_string(s.outputs[k]);
      legal += (legal.empty() ? "" : "; ") + text;
    }
    ir::user_error(kAnnotation, location_of(path_, *node.proto),
                   fmt::format("the annotations contradict the operator: it cannot take {}{}", taken, more),
                   "it can: " + legal);
  }

  const std::string& path_;
  const Graph& graph_;
  const DeviceConfiguration& configuration_;
  Plan lines_;
  BlockCandidates candidates_;
  std::vector<States> stated_;  // by node: inputs, then outputs
  States delivered_;            // by value: as its producer leaves it, where that is known
  States fallback_;             // by value: the same, where it is not what the rule computes
  std::map<int, const onnx::NodeProto*> stages_;  // the first node of each
};

// ---- configurations

std::int64_t known_devices(const std::string& path, const onnx::DeviceConfigurationProto& proto) {
  constexpr int kMostDevices = 1024;
  const auto fail = [&](const std::string& what) {
    ir::user_error(kAnnotation, {.file = path}, what, "correct the model's configuration");
  };
  if (proto.name().empty()) fail("a configuration of devices has no name");
  if (!proto.has_num_devices() || proto.num_devices() < 1 || proto.num_devices() > kMostDevices)
    fail(fmt::format("the configuration '{}' has {} devices, expected 1 to {}", proto.name(),
                     proto.num_devices(), kMostDevices));
  if (proto.device_size() > 0 && proto.device_size() != proto.num_devices())
    fail(fmt::format("the configuration '{}' has {} devices and {} names of devices", proto.name(),
                     proto.num_devices(), proto.device_size()));
  return proto.num_devices();
}

void refuse_inside(const std::string& path, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                   bool inside) {
  for (const onnx::NodeProto& node : nodes) {
    if (inside && node.device_configurations_size() > 0)
      ir::user_error(kAnnotationForm, location_of(path, node),
                     "it is annotated inside of a branch, a loop or a function",
                     "annotate nodes of the model's own graph");
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) refuse_inside(path, attribute.g().node(), true);
    }
  }
}

std::string first_output(const onnx::NodeProto& node) {
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return {};
}

// ---- writing

class Writer {
 public:
  Writer(Model& model, const Graph& graph, const ResolvedPlan& plan, int ranks)
      : model_(model), graph_(graph), plan_(plan), ranks_(ranks) {}

  void run() {
    onnx::ModelProto& proto = model_.proto;
    proto.set_ir_version(std::max<std::int64_t>(proto.ir_version(), kFirstIrVersion));
    proto.clear_configuration();
    onnx::DeviceConfigurationProto& configuration = *proto.add_configuration();
    configuration.set_name(kName);
    configuration.set_num_devices(ranks_);
    std::map<std::string, onnx::NodeProto*> nodes;
    for (onnx::NodeProto& node : *proto.mutable_graph()->mutable_node()) {
      node.clear_device_configurations();
      nodes[first_output(node)] = &node;
    }
    check_interface();
    candidates_ = block_candidates(graph_, ranks_);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (std::size_t k = 0; k < graph_.nodes[n].inputs.size() && !graph_.nodes[n].compile_time; ++k) {
        const Spec& spec = plan_.nodes[n].strategy.inputs[k];
        if (!spec.blocks.empty()) candidates_[{graph_.nodes[n].inputs[k], spec.dim}].insert(spec.blocks);
      }
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!graph_.nodes[n].compile_time) write(n, *nodes.at(first_output(*graph_.nodes[n].proto)));
    }
  }

 private:
  [[noreturn]] void refuse(const onnx::NodeProto* node, const std::string& what) const {
    ir::user_error(kAnnotationForm,
                   node == nullptr ? ir::Location{.file = model_.path} : location_of(model_.path, *node),
                   what, "ONNX's annotations cannot express this plan: keep it as text");
  }

  // Nothing says in which state a model is given its inputs or returns its outputs: whole.
  void check_interface() const {
    const auto check = [&](int v, const Spec& spec, const char* what) {
      if (!spec.is_replicated())
        refuse(nullptr, fmt::format("the {} '{}' is {}", what, graph_.values[at(v)].name, to_string(spec)));
    };
    for (const int v : graph_.inputs) check(v, plan_.produced[at(v)], "input");
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k)
      check(graph_.outputs[k], plan_.outputs[k], "output");
  }

  // Parts of annotated tensors are equal.
  void refuse_padding(const onnx::NodeProto& node, const GraphValue& value, const Spec& spec) const {
    if (!spec.is_split()) return;
    const ir::Expr& size = value.sizes[at(spec.dim)];
    if (size.is_constant() && size.constant() % ranks_ != 0)
      refuse(&node, fmt::format("'{}' is {} of {}, which {} ranks do not divide: padded", value.name,
                                to_string(spec), size.constant(), ranks_));
  }

  void write(std::size_t n, onnx::NodeProto& proto) {
    const GraphNode& node = graph_.nodes[n];
    const Strategy& strategy = plan_.nodes[n].strategy;
    onnx::NodeDeviceConfigurationProto& own = *proto.add_device_configurations();
    own.set_configuration_id(kName);
    std::map<int, Spec> inputs;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const int v = node.inputs[k];
      if (v < 0) continue;
      const GraphValue& value = graph_.values[at(v)];
      const Spec& spec = strategy.inputs[k];
      const auto [other, fresh] = inputs.emplace(v, spec);
      if (!(other->second == spec))
        refuse(&proto, fmt::format("it takes '{}' as {} and as {}", value.name, to_string(other->second),
                                   to_string(spec)));
      if (spec.is_pending()) {
        if (!value.constant) refuse(&proto, fmt::format("it takes '{}' as {}", value.name, to_string(spec)));
        continue;  // the rule alone tells
      }
      refuse_padding(proto, value, spec);
      if (fresh && !value.pinned) state(own, proto, value.name, spec);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const int v = node.outputs[k];
      if (v < 0 || graph_.values[at(v)].readers.empty() || graph_.values[at(v)].pinned) continue;
      refuse_padding(proto, graph_.values[at(v)], strategy.outputs[k]);
      // What is missing is what the rule gives, reduced at once.
      if (!strategy.outputs[k].is_pending())
        state(own, proto, graph_.values[at(v)].name, strategy.outputs[k]);
    }
    check_unique(node, proto, strategy);
  }

  void state(onnx::NodeDeviceConfigurationProto& own, const onnx::NodeProto& node, const std::string& name,
             const Spec& spec) const {
    Proto& proto = *own.add_sharding_spec();
    proto.set_tensor_name(name);
    if (spec.is_replicated()) {
      proto.add_device(-1);
      onnx::IntIntListEntryProto& group = *proto.add_index_to_device_group_map();
      group.set_key(-1);
      for (int d = 0; d < ranks_; ++d) group.add_value(d);
      return;
    }
    for (int d = 0; d < ranks_; ++d) proto.add_device(d);
    onnx::ShardedDimProto& dim = *proto.add_sharded_dim();
    dim.set_axis(spec.dim);
    if (!spec.blocks.empty()) {
      if (std::adjacent_find(spec.blocks.begin(), spec.blocks.end(), std::not_equal_to<>()) !=
          spec.blocks.end())
        refuse(&node, fmt::format("'{}' is {}, in blocks of different sizes", name, to_string(spec)));
      onnx::SimpleShardedDimProto& repeated = *dim.add_simple_sharding();
      repeated.set_dim_value(static_cast<std::int64_t>(spec.blocks.size()));
      repeated.set_num_shards(1);
    }
    onnx::SimpleShardedDimProto& cut = *dim.add_simple_sharding();
    if (!spec.blocks.empty()) cut.set_dim_value(spec.blocks[0]);
    cut.set_num_shards(ranks_);
  }

  // What is stated must leave one combination of the rule.
  void check_unique(const GraphNode& node, const onnx::NodeProto& proto, const Strategy& chosen) const {
    for (const Strategy& s : strategies(graph_, node, ranks_, candidates_)) {
      bool fits = true, same = true;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] < 0) continue;
        const GraphValue& value = graph_.values[at(node.inputs[k])];
        fits &= chosen.inputs[k].is_pending() || s.inputs[k] == chosen.inputs[k];
        fits &= !value.constant || can_shard(*value.constant, s.inputs[k]);
        same &= s.inputs[k] == chosen.inputs[k];
      }
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.outputs[k] < 0 || graph_.values[at(node.outputs[k])].readers.empty()) continue;
        fits &= chosen.outputs[k].is_pending() || s.outputs[k] == chosen.outputs[k];
        same &= s.outputs[k] == chosen.outputs[k];
      }
      if (fits && !same)
        refuse(&proto, "what can be stated of its inputs and outputs leaves several ways to compute it");
    }
  }

  Model& model_;
  const Graph& graph_;
  const ResolvedPlan& plan_;
  int ranks_;
  BlockCandidates candidates_;
};

}  // namespace

std::optional<DeviceConfiguration> device_configuration(const std::string& path, const std::string& name) {
  const Model model = load_model(path_of_rank(path, 0));
  const onnx::ModelProto& proto = model.proto;
  std::map<std::string, DeviceConfiguration> all;
  std::vector<std::string> names;
  for (const onnx::DeviceConfigurationProto& own : proto.configuration()) {
    const auto devices = static_cast<int>(known_devices(path, own));
    if (!all.emplace(own.name(), DeviceConfiguration{path, own.name(), devices, {}}).second)
      ir::user_error(kAnnotation, {.file = path},
                     fmt::format("two configurations are named '{}'", own.name()), "rename one of them");
    names.push_back(own.name());
  }
  refuse_inside(path, proto.graph().node(), false);
  for (const onnx::FunctionProto& function : proto.functions()) refuse_inside(path, function.node(), true);
  for (const onnx::NodeProto& node : proto.graph().node()) {
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations()) {
      const auto found = all.find(own.configuration_id());
      if (found == all.end())
        ir::user_error(
            kAnnotation, location_of(path, node),
            fmt::format("it is annotated for the configuration '{}', which the model does not have",
                        own.configuration_id()),
            fmt::format("the model's configurations are: {}", fmt::join(names, ", ")));
      found->second.nodes.push_back(first_output(node));
    }
  }
  if (names.empty() && name.empty()) return std::nullopt;
  if (!names.empty() && proto.ir_version() < kFirstIrVersion)
    ir::user_error(
        kAnnotation, {.file = path},
        fmt::format("the model has configurations of devices, but IR version {}", proto.ir_version()),
        fmt::format("they came with version {}", kFirstIrVersion));
  if (name.empty() && names.size() > 1)
    ir::user_error(kAnnotation, {.file = path},
                   fmt::format("the model has the configurations {}", fmt::join(names, ", ")),
                   "name one with --configuration");
  const auto found = all.find(name.empty() ? names.front() : name);
  if (found == all.end())
    ir::user_error(kAnnotation, {.file = path}, fmt::format("the model has no configuration '{}'", name),
                   names.empty() ? "it has none" : fmt::format("it has {}", fmt::join(names, ", ")));
  return found->second;
}

Plan annotated_lines(const Graph& graph, const DeviceConfiguration& configuration) {
  return Annotations(graph, configuration).run();
}

void annotate(Model& model, const Graph& graph, const ResolvedPlan& plan, int ranks) {
  Writer(model, graph, plan, ranks).run();
}

}  // namespace braid::frontend::sharding
