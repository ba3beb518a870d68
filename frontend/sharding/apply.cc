#include "frontend/sharding/apply.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/sharding/convert.h"
#include "frontend/sharding/local.h"
#include "frontend/sharding/onnx_graph.h"
#include "ir/error_numbers.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

class Resolution {
 public:
  Resolution(const Graph& graph, const Plan& plan, int ranks, const std::string& file)
      : graph_(graph), plan_(plan), ranks_(ranks), file_(file) {}

  ResolvedPlan run() {
    if (plan_.ranks != ranks_)
      ir::user_error(errors::kPlanMismatch, {.file = file_},
                     fmt::format("the plan is for {} ranks, but there are {}", plan_.ranks, ranks_),
                     "give the number of ranks of the plan");
    check_names(graph_, plan_, file_);
    check_states();
    ResolvedPlan result;
    for (const GraphValue& value : graph_.values) result.produced.push_back(plan_.of_value(value.name));
    candidates_ = block_candidates(graph_, ranks_);
    suggest_blocks();
    for (const GraphNode& node : graph_.nodes) result.nodes.push_back(states_of(node, result.produced));
    for (int k = 0; k < count_of(graph_.outputs); ++k)
      result.outputs.push_back(output_of(k, result.produced));
    return result;
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what, const std::string& hint = "") const {
    refuse_line(file_, line, what, hint);
  }
  int line_of(const std::string& value) const { return split::line_of(plan_, value); }
  int line_of(const std::string& value, const std::string& node, int input) const {
    return split::line_of(plan_, value, node, input);
  }

  void check_states() const {
    for (const auto& [name, spec] : plan_.values) {
      const GraphValue& value = graph_.values[graph_.find(name)];
      if (value.constant && !spec.is_replicated())
        fail(line_of(name),
             fmt::format("'{}' is a constant, which each reader takes in a state of its own", name),
             fmt::format("write \"{}\" -> \"reader\" = {}", name, to_string(spec)));
      if (value.producer.valid() && graph_.nodes[value.producer].compile_time && !spec.is_replicated())
        fail(line_of(name), fmt::format("'{}' is computed while compiling and must be R", name));
      if (const std::string why = fault(value, spec, ranks_); !why.empty())
        fail(line_of(name), fmt::format("'{}' cannot be {}: {}", name, to_string(spec), why));
    }
    for (const auto& [key, spec] : plan_.readers) {
      const auto& [name, reader] = key;
      const GraphValue& value = graph_.values[graph_.find(name)];
      if (const std::string why = fault(value, spec, ranks_); !why.empty())
        fail(line_of(name, reader.node, reader.input),
             fmt::format("'{}' cannot be {}: {}", name, to_string(spec), why));
    }
  }

  void suggest_blocks() {
    for (const auto& [name, spec] : plan_.values) {
      if (!spec.blocks.empty()) candidates_[{graph_.find(name), spec.dim}].insert(spec.blocks);
    }
    for (const auto& [key, spec] : plan_.readers) {
      if (!spec.blocks.empty()) candidates_[{graph_.find(key.first), spec.dim}].insert(spec.blocks);
    }
  }

  void require_conversion(const GraphValue& value, const Spec& from, const Spec& to, int line) const {
    const bool possible = value.is_constant()
                              ? can_shard(value.dtype, to)
                              : conversion_steps(from, to, value.dtype, 0, ranks_).has_value();
    if (!possible)
      fail(line, fmt::format("'{}' is {} and cannot be converted to {}", value.name,
                             value.is_constant() ? "constant" : to_string(from), to_string(to)));
  }

  NodeStates states_of(const GraphNode& node, const IdVector<ValueId, Spec>& produced) const {
    NodeStates result;
    if (node.compile_time) return result;
    const std::string name = plan_name(graph_, node);
    std::vector<Spec> inputs;
    int line = 0;
    std::string states;
    for (int k = 0; k < count_of(node.inputs); ++k) {
      const ValueId v = node.inputs[k];
      Spec& spec = inputs.emplace_back();
      if (!v.valid()) continue;
      const GraphValue& value = graph_.values[v];
      const Spec own = value.constant ? Spec::replicated() : produced[v];
      spec = plan_.of_reader(value.name, name, k, own);
      states += fmt::format("{}{}", states.empty() ? "" : ", ", to_string(spec));
      const int own_line = line_of(value.name, name, k);
      if (line == 0 || !spec.is_replicated()) line = std::max(line, own_line);
      require_conversion(value, own, spec, own_line);
    }
    std::string results;
    for (const ValueId v : node.outputs) {
      const Spec spec = v.valid() ? produced[v] : Spec::replicated();
      results += fmt::format("{}{}", results.empty() ? "" : ", ", to_string(spec));
      if (v.valid() && line_of(graph_.values[v].name) > 0) line = line_of(graph_.values[v].name);
    }
    std::vector<Strategy> all = strategies(graph_, node, ranks_, candidates_);
    for (Strategy& s : all) {
      bool same = s.inputs == inputs;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const ValueId v = node.outputs[k];
        if (!v.valid() || graph_.values[v].readers.empty()) continue;
        same &= s.outputs[k] == produced[v];
      }
      if (!same) continue;
      if (s.letter.valid()) result.letter = node.factors.letters[s.letter];
      result.strategy = std::move(s);
      return result;
    }
    std::string legal;
    for (const Strategy& s : all) {
      std::string text;
      for (const Spec& spec : s.inputs) text += (text.empty() ? "" : ", ") + to_string(spec);
      text += " -> ";
      for (std::size_t k = 0; k < s.outputs.size(); ++k)
        text += (k == 0 ? "" : ", ") + to_string(s.outputs[k]);
      legal += (legal.empty() ? "" : "; ") + text;
    }
    fail(line, fmt::format("the node of '{}' ({}) cannot compute {} from {}", name, node.op, results, states),
         "it can: " + legal);
  }

  Spec output_of(int k, const IdVector<ValueId, Spec>& produced) const {
    const ValueId v = graph_.outputs[k];
    const GraphValue& value = graph_.values[v];
    const Spec own = value.constant ? Spec::replicated() : produced[v];
    const Spec spec = plan_.of_reader(value.name, "", k, Spec::replicated());
    const int line = line_of(value.name, "", -1);
    require_conversion(value, own, spec, line);
    if (!(spec == own) && (!value.producer.valid() || value.constant))
      fail(line, fmt::format("the output '{}' is an input or a constant and must stay {}", value.name,
                             to_string(own)));
    return spec;
  }

  const Graph& graph_;
  const Plan& plan_;
  int ranks_;
  const std::string& file_;
  BlockCandidates candidates_;
};

// Writes the local model.
class Application {
 public:
  Application(const Model& plain, const Graph& graph, const ResolvedPlan& plan, int ranks, int before,
              Weights weights)
      : plain_(plain),
        graph_(graph),
        plan_(plan),
        model_(plain, ranks, before),
        ranks_(ranks),
        before_(before),
        weights_(weights) {}

  LocalProgram run() {
    LocalProgram result;
    name_values(result);
    declare_interface();
    for (const NodeId n : graph_.nodes.ids()) result.nodes.push_back(write(n));
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      const ValueId v = graph_.outputs[k];
      if (is_converted_output(k))
        convert(v, plan_.outputs[k], graph_.values[v].name);
      else
        local(v, plan_.outputs[k]);
    }
    // The values that bodies of control flow read by name.
    for (const ValueId v : graph_.values.ids()) {
      if (graph_.values[v].pinned) own_initializer(v);
    }
    for (const auto& [name, tensor] : plain_.initializers) {
      if (!graph_.find(name).valid())
        model_.add_initializer(name, of_all_ranks(tensor));  // read by bodies only
    }
    result.names = names_;
    result.model = model_.take();
    return result;
  }

 private:
  bool is_converted_output(std::size_t k) const {
    const ValueId v = graph_.outputs[k];
    return !graph_.values[v].constant && !(plan_.outputs[k] == plan_.produced[v]);
  }

  // Values have their own names but where an output of the program needs it after a conversion.
  void name_values(LocalProgram& result) {
    for (const GraphValue& value : graph_.values) names_.push_back(value.name);
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      const ValueId v = graph_.outputs[k];
      if (!plan_.outputs[k].is_replicated()) result.outputs[graph_.values[v].name] = plan_.outputs[k];
      if (is_converted_output(k)) {
        names_[v] = model_.fresh(names_[v] + "@" + to_string(plan_.produced[v]));
        converted_[{v, plan_.outputs[k]}] = graph_.values[v].name;
      }
    }
    for (const ValueId v : graph_.inputs) {
      if (!plan_.produced[v].is_replicated()) result.inputs[graph_.values[v].name] = plan_.produced[v];
    }
  }

  void make_local(onnx::ValueInfoProto& value, const Spec& spec) const {
    if (!spec.is_split() || !value.type().has_tensor_type() || !value.type().tensor_type().has_shape())
      return;
    onnx::TensorShapeProto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
    if (spec.dim >= shape.dim_size()) return;
    onnx::TensorShapeProto_Dimension& dim = *shape.mutable_dim(spec.dim);
    if (dim.has_dim_value()) dim.set_dim_value(part_of(dim.dim_value(), ranks_));
  }

  void declare_interface() {
    for (onnx::ValueInfoProto& input : *model_.graph().mutable_input()) {
      const ValueId v = graph_.find(input.name());
      if (v.valid()) make_local(input, plan_.produced[v]);
    }
    for (int k = 0; k < count_of(graph_.outputs); ++k)
      make_local(*model_.graph().mutable_output(k), plan_.outputs[k]);
  }

  void own_initializer(ValueId v) {
    const std::string& name = graph_.values[v].name;
    const auto found = plain_.initializers.find(name);
    if (found != plain_.initializers.end() && initializers_.insert(v).second)
      model_.add_initializer(name, of_all_ranks(found->second));
  }

  Tensor of_all_ranks(const Tensor& tensor) const {
    return shard(tensor, Spec::replicated(), ranks_, before_);
  }

  // The name of the value in that state; emits the conversion on first use.
  std::string local(ValueId v, const Spec& spec) {
    const GraphValue& value = graph_.values[v];
    const Spec own = value.constant ? Spec::replicated() : plan_.produced[v];
    if (spec == own) {
      own_initializer(v);
      return names_[v];
    }
    const auto found = converted_.find({v, spec});
    if (found != converted_.end()) {
      if (emitted_.insert({v, spec}).second && !value.constant)
        emit_conversion(model_, names_[v], own, spec, value.sizes, found->second);
      return found->second;
    }
    const std::string name = model_.fresh(value.name + "@" + to_string(spec));
    converted_[{v, spec}] = name;
    emitted_.insert({v, spec});
    if (value.is_constant()) {
      const Tensor& whole = *value.constant;
      const bool any = weights_ == Weights::any_bytes && spec.is_split() && is_large(whole);
      model_.add_initializer(name, shard(whole, spec, ranks_, before_, weights_), any);
    } else {
      emit_conversion(model_, names_[v], own, spec, value.sizes, name);
    }
    return name;
  }

  // To a name that is given: an output of the program.
  void convert(ValueId v, const Spec& spec, const std::string& name) {
    ir::internal_check(converted_.at({v, spec}) == name, "output '{}' has another name", name);
    local(v, spec);
  }

  Emitted write(NodeId n) {
    const GraphNode& node = graph_.nodes[n];
    const NodeStates& states = plan_.nodes[n];
    Emitted emitted;
    std::vector<std::string>& inputs = emitted.inputs;
    for (std::size_t k = 0; k < node.inputs.size() && !node.compile_time; ++k)
      inputs.push_back(node.inputs[k].valid() ? local(node.inputs[k], states.strategy.inputs[k])
                                              : std::string());
    emitted.begin = model_.graph().node_size();
    if (node.compile_time) {
      write_compile_time(node);
    } else {
      write_node(node, states, inputs);
    }
    emitted.end = model_.graph().node_size();
    return emitted;
  }

  std::vector<std::string> names_of(const std::vector<ValueId>& values) const {
    std::vector<std::string> names;
    for (const ValueId v : values) names.push_back(v.valid() ? names_[v] : std::string());
    return names;
  }

  void write_node(const GraphNode& node, const NodeStates& states, const std::vector<std::string>& inputs) {
    const NodeView view(graph_, node);
    const Letter* letter = states.strategy.letter.valid() ? &states.letter : nullptr;
    LocalNode own(model_, view, states.strategy, letter, inputs, names_of(node.outputs));
    if (letter != nullptr && letter->reduce == ir::ReduceKind::sum) {
      for (int k = 0; k < count_of(node.inputs); ++k) own.hide_padding(k, 0);
    }
    if (rule_of(node).exchange) {
      model_.widen_groups(own.emit());
    } else if (const Rule& rule = rule_of(node); rule.rewrite != nullptr && any_split(states.strategy)) {
      rule.rewrite(own);
    } else {
      own.emit();
    }
  }

  static bool any_split(const Strategy& s) {
    const auto split = [](const Spec& spec) { return spec.is_split(); };
    return std::any_of(s.inputs.begin(), s.inputs.end(), split) ||
           std::any_of(s.outputs.begin(), s.outputs.end(), split);
  }

  // Writes the node as it is. Sizes that it reads of a tensor in parts are multiplied, so that they are those
  // of the whole tensor.
  void write_compile_time(const GraphNode& node) {
    const NodeView view(graph_, node);
    const bool reads_sizes = node.work.kind == WorkKind::sizes;
    const Strategy none;
    for (const ValueId v : node.inputs) {
      if (v.valid()) own_initializer(v);
    }
    LocalNode own(model_, view, none, nullptr, names_of(node.inputs), names_of(node.outputs));
    const Spec spec = reads_sizes ? plan_.produced[node.inputs[0]] : Spec::replicated();
    if (!spec.is_split() || view.input(0).constant) {
      own.emit();
      return;
    }
    // Sizes are multiplied by the number of ranks; with padding, by the whole size, and divided by the size
    // of a part.
    const std::int64_t whole = static_size(view.input(0).sizes[spec.dim]).value_or(0);
    const bool padded = whole % ranks_ != 0;
    const std::int64_t factor = padded ? whole : ranks_;
    std::vector<std::int64_t> factors;
    const bool counts = view.output(0).rank() == 0;  // all elements together
    if (counts) {
      factors = {factor};
    } else {
      const int rank = view.rank(0);
      const auto position = [&](const char* name, std::int64_t fallback) {
        const std::int64_t p = view.int_attribute(name, fallback);
        return std::clamp<std::int64_t>(p < 0 ? p + rank : p, 0, rank);
      };
      for (std::int64_t d = position("start", 0); d < position("end", rank); ++d)
        factors.push_back(d == spec.dim ? factor : 1);
    }
    const std::string result = own.outputs[0];
    if (std::all_of(factors.begin(), factors.end(), [](std::int64_t f) { return f == 1; })) {
      own.emit();
      return;
    }
    own.outputs[0] = model_.fresh(result + "/local");
    own.emit();
    const std::vector<std::int64_t> sizes =
        counts ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{std::ssize(factors)};
    const std::string times = model_.integers(result + "/factors", ir::DType::i64, sizes, factors);
    if (!padded) {
      model_.add_node("", "Mul", {own.outputs[0], times}, {result});
      return;
    }
    std::vector<std::int64_t> divisors;
    for (const std::int64_t f : factors) divisors.push_back(f == 1 ? 1 : part_of(whole, ranks_));
    const std::string product = model_.compute("Mul", {own.outputs[0], times}, result + "/product");
    model_.add_node("", "Div", {product, model_.integers(result + "/part", ir::DType::i64, sizes, divisors)},
                    {result});
  }

  const Model& plain_;
  const Graph& graph_;
  const ResolvedPlan& plan_;
  LocalModel model_;
  int ranks_, before_;
  Weights weights_;
  IdVector<ValueId, std::string> names_;  // as they are produced
  std::map<std::pair<ValueId, Spec>, std::string> converted_;
  std::set<std::pair<ValueId, Spec>> emitted_;
  std::set<ValueId> initializers_;
};

}  // namespace

ResolvedPlan resolve(const Graph& graph, const Plan& plan, int ranks, const std::string& file) {
  return Resolution(graph, plan, ranks, file).run();
}

LocalProgram apply(const Model& plain, const Graph& graph, const ResolvedPlan& plan, int ranks, int before,
                   Weights weights) {
  return Application(plain, graph, plan, ranks, before, weights).run();
}

}  // namespace braid::frontend::sharding
