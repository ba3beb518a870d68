#include "frontend/lower_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_set>

#include "frontend/attention_pattern.h"
#include "frontend/check.h"
#include "frontend/check_definition.h"
#include "frontend/check_supported.h"
#include "frontend/dead_nodes.h"
#include "frontend/external_data.h"
#include "frontend/fold.h"
#include "frontend/match_attention.h"
#include "frontend/model_mesh.h"
#include "frontend/node_row.h"
#include "frontend/op_context.h"
#include "frontend/rank_values.h"
#include "frontend/regions.h"
#include "frontend/shape_rules.h"
#include "frontend/shape_values.h"
#include "frontend/sharding/split.h"
#include "frontend/size_fractions.h"
#include "frontend/unroll.h"
#include "frontend/value_needed.h"
#include "ir/capacity.h"
#include "ir/coordinate.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::Expr;
using ir::user_error;

// Thrown on a node whose operator is not implemented for its element type.
struct UnsupportedType {
  UnsupportedOperator problem;
};

class GraphLowering {
 public:
  GraphLowering(const Model& model, const Opsets& opsets, const LowerOptions& options,
                const BranchFacts& branches)
      : model_(model),
        opsets_(opsets),
        options_(options),
        branch_facts_(branches),
        lowering_(schedule_.graph),
        measured_(options.measure, lowering_) {
    for (const auto* list : {&model.proto.graph().value_info(), &model.proto.graph().output()}) {
      for (const onnx::ValueInfoProto& value : *list) {
        if (value.type().has_tensor_type()) declared_[value.name()] = &value.type().tensor_type();
      }
    }
  }

  ir::Schedule run() {
    schedule_.graph.name = model_.proto.graph().name().empty() ? "main" : model_.proto.graph().name();
    schedule_.graph.ranks = options_.ranks;
    const onnx::NodeProto* communicating = sharding::find_communication(model_.proto.graph(), opsets_);
    communicates_ = communicating != nullptr;
    if (options_.facts == nullptr) schedule_.graph.mesh = mesh_of(model_, options_.ranks, communicating);
    begin();
    if (options_.facts == nullptr) find_patterns();
    const auto& nodes = model_.proto.graph().node();
    for (int k = 0; k < nodes.size(); ++k) {
      if (!live_[static_cast<std::size_t>(k)] || held_back_.count(k) > 0) continue;
      const auto pattern = patterns_.find(k);
      if (pattern == patterns_.end())
        lower_supported(nodes[k]);
      else
        lower_attention(pattern->second);
    }
    if (!unsupported_.empty()) refuse_unsupported(model_.path, unsupported_);
    for (const onnx::ValueInfoProto& output : model_.proto.graph().output()) {
      lowering_.set_origin(output.name());
      Value& value = values_.at(output.name());
      const bool declared = output.type().value_case() != onnx::TypeProto::VALUE_NOT_SET;
      if (value.sequence || value.empty_optional || (declared && !output.type().has_tensor_type())) {
        user_error(errors::kUnsupportedType, {.file = model_.path},
                   fmt::format("the output '{}' is a sequence or an optional value", output.name()),
                   "return its tensors as outputs of their own");
      }
      located({.file = model_.path}, [&] {
        const ir::TensorBox box = box_of(value, lowering_);
        lowering_.output(output.name(), as_type(box, byte_type(box.dtype())));
        ir::GraphOutput& own = schedule_.graph.outputs.back();
        ir::Graph& graph = schedule_.graph;
        if (options_.ranks > 1)
          own.part = part_of_value(output, graph[own.buffer].sizes, graph.mesh, graph.ranks);
        if (const auto classes = model_.classes.find(output.name()); classes != model_.classes.end())
          own.classes = classes->second;
      });
    }
    measured_.require_used();
    if (options_.keep_values) keep_values();
    if (options_.facts != nullptr) collect_facts(*options_.facts);
    for (ir::OpId op : lowering_.order()) schedule_.nodes.push_back(ir::ScheduleNode::single(op));
    return std::move(schedule_);
  }

  std::vector<onnx::NodeProto> rewritten(const Rewrite& rewrite) {
    begin();
    const auto value = [&](const std::string& name) -> const Value* {
      const auto found = values_.find(name);
      return found == values_.end() ? nullptr : &found->second;
    };
    std::vector<onnx::NodeProto> all;
    const auto& nodes = model_.proto.graph().node();
    for (int k = 0; k < nodes.size(); ++k) {
      if (!live_[static_cast<std::size_t>(k)]) continue;
      for (std::deque<onnx::NodeProto> next = {nodes[k]}; !next.empty();) {
        onnx::NodeProto node = std::move(next.front());
        next.pop_front();
        if (std::optional<std::vector<onnx::NodeProto>> other = rewrite(node, value)) {
          next.insert(next.begin(), std::make_move_iterator(other->begin()),
                      std::make_move_iterator(other->end()));
        } else {
          lower_supported(node);
          all.push_back(std::move(node));
        }
      }
    }
    return all;
  }

 private:
  void begin() {
    live_ = live_nodes(model_.proto.graph(), opsets_, uses_);
    for (const onnx::ValueInfoProto* input : true_inputs(model_)) define_input(*input);
    for (const auto& [name, tensor] : model_.initializers) define_initializer(name, tensor);
  }

  // Lowers the node, or notes why its operator is not supported. Nodes that read the result of an unsupported
  // node are left out.
  void lower_supported(const onnx::NodeProto& node) {
    bool known = true;
    for_each_read(node, [&](const std::string& name) { known &= unknown_.count(name) == 0; });
    if (known) {
      try {
        return lower(node);
      } catch (const UnsupportedType& type) {
        add_unsupported(unsupported_, type.problem);
      }
    }
    unknown_.insert(node.output().begin(), node.output().end());
    unknown_.erase("");
  }

  void keep_values() {
    std::unordered_set<std::string> taken;
    for (const onnx::ValueInfoProto& output : model_.proto.graph().output()) taken.insert(output.name());
    for (const onnx::NodeProto& node : model_.proto.graph().node()) {
      for (const std::string& name : node.output()) {
        const auto found = values_.find(name);
        if (name.empty() || found == values_.end() || !taken.insert(name).second) continue;
        const Value& value = found->second;
        const bool computed = value.box.valid() && !value.sequence && !value.empty_optional;
        if (!computed || value.constant || value.elements) continue;
        lowering_.set_origin(name_of(node));
        located(location_of(model_.path, node),
                [&] { lowering_.output(name, as_type(value.box, byte_type(value.box.dtype()))); });
      }
    }
  }

  void collect_facts(GraphFacts& facts) {
    facts.live = live_;
    for (auto& [name, value] : values_) {
      ValueFacts& f = facts.values[name];
      f.tensor = !value.sequence && !value.empty_optional;
      f.dtype = value.dtype;
      f.sizes = value.sizes;
      f.constant = value.constant;
      f.from_sizes = value.fractions.has_value();
      if (f.tensor && (value.elements || value.constant)) f.elements = elements_of(value);
    }
  }

  // The same bytes.
  ir::TensorBox as_type(const ir::TensorBox& box, ir::DType dtype) {
    if (box.dtype() == dtype) return box;
    return lowering_.pointwise({box}, [dtype](ir::BodyBuilder& b, std::span<const ir::ValueId> v) {
      return b.bitcast(v[0], dtype);
    });
  }

  void find_patterns() {
    const onnx::GraphProto& graph = model_.proto.graph();
    const auto version = opsets_.find("");
    patterns_ = find_attention(graph, live_, uses_, version == opsets_.end() ? 1 : version->second);
    for (const auto& [result, pattern] : patterns_) {
      for (int k : pattern.inner()) held_back_.insert(k);
    }
    if (patterns_.empty()) return;
    for (int k = 0; k < graph.node_size(); ++k) {
      for (const std::string& output : graph.node(k).output()) producers_[output] = k;
    }
  }

  // Attention that is spelled out becomes one operation; if it turns out to be something else, its nodes are
  // lowered one by one.
  void lower_attention(const AttentionPattern& pattern) {
    const auto& nodes = model_.proto.graph().node();
    const onnx::NodeProto& result = nodes[pattern.result];
    bool lowered = false;
    lowering_.set_origin(name_of(result));
    located(location_of(model_.path, result), [&] {
      const PatternGraph graph{model_.proto.graph(),
                               [&](const std::string& name) {
                                 const auto found = values_.find(name);
                                 return found == values_.end() ? nullptr : &found->second;
                               },
                               [&](const onnx::NodeProto& node) { return context_of(node); },
                               [&](const std::string& name) {
                                 const auto found = producers_.find(name);
                                 return found == producers_.end() ? nullptr : &nodes[found->second];
                               }};
      std::optional<ir::TensorBox> y = lower_pattern(graph, pattern);
      if (!y) return;
      OpContext context = context_of(result);
      context.set_output(0, std::move(*y));
      define_output(result, 0, context);
      lowered = true;
    });
    if (lowered) return;
    for (int k : pattern.inner()) lower_supported(nodes[k]);
    lower_supported(result);
  }

  // Inputs whose nodes are held back count as absent.
  OpContext context_of(const onnx::NodeProto& node) {
    std::vector<Value*> inputs;
    for (const std::string& name : node.input()) {
      const auto found = values_.find(name);
      inputs.push_back(found == values_.end() ? nullptr : &found->second);
    }
    return {model_.path, node,      version_of(node, opsets_), options_.ranks,
            lowering_,   measured_, std::move(inputs)};
  }

  // Branches of control flow read values of the graph around them by name.
  template <class F>
  static void for_each_read(const onnx::NodeProto& node, const F& f) {
    for (const std::string& input : node.input()) {
      if (!input.empty()) f(input);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      for (const onnx::NodeProto& inner : attribute.g().node()) for_each_read(inner, f);
      for (const onnx::ValueInfoProto& output : attribute.g().output()) f(output.name());
    }
  }

  void define(Value value) {
    value.uses = uses_.count(value.name) ? uses_.at(value.name) : 0;
    values_[value.name] = std::move(value);
  }

  void define_input(const onnx::ValueInfoProto& input) {
    Value value{input.name(), *dtype_of_onnx(input.type().tensor_type().elem_type())};
    value.sizes = input_sizes(input, options_.dims, schedule_.graph);
    // Programs take bytes instead of storage types.
    const ir::TensorBox box = lowering_.input(value.name, byte_type(value.dtype), value.sizes);
    if (options_.ranks > 1) {
      ir::Graph& graph = schedule_.graph;
      graph.inputs.back().part = part_of_value(input, value.sizes, graph.mesh, graph.ranks);
    }
    if (const auto capacities = options_.capacities.find(value.name); capacities != options_.capacities.end())
      give_room(schedule_.graph.inputs.back().buffer, capacities->second);
    value.box = as_type(box, value.dtype);
    define(std::move(value));
  }

  void give_room(ir::BufferId input, const std::vector<std::int64_t>& capacities) {
    ir::Graph& graph = schedule_.graph;
    const std::vector<Expr> strides = ir::capacity_strides(capacities);
    graph[input].layout = ir::FixedLayout{strides};
    graph[graph[input].storage].bytes = graph[input].sizes[0] * strides[0] * size_of(graph[input].dtype);
  }

  void define_initializer(const std::string& name, const Tensor& tensor) {
    Value value{name, tensor.dtype, {tensor.sizes.begin(), tensor.sizes.end()}};
    value.constant = tensor;
    if (options_.facts == nullptr) follow_rank(value, schedule_.graph);
    define(std::move(value));
  }

  // Adds file and node to errors that lack them.
  template <class F>
  void located(const ir::Location& at, const F& f) {
    try {
      f();
    } catch (const ValueNeeded&) {  // names its node
      throw;
    } catch (const ShapeRuleError& error) {
      user_error(error.code, at, error.message, error.hint);
    } catch (const ir::SizesNeverFit& error) {
      if (!error.are_numbers()) user_error(error.code(), at, error.message(), error.hint());
      user_error(errors::kShapeMismatch, at, error.message(), "check the shapes of the node's inputs");
    } catch (const ir::UserError& error) {
      if (!error.location().file.empty()) throw;
      user_error(error.code(), at, error.message(), error.hint());
    }
  }

  void lower(const onnx::NodeProto& node) {
    std::vector<Value*> inputs;
    for (const std::string& name : node.input()) inputs.push_back(name.empty() ? nullptr : &values_.at(name));
    while (!inputs.empty() && !inputs.back()) inputs.pop_back();
    lowering_.set_origin(name_of(node));
    OpContext context(model_.path, node, version_of(node, opsets_), options_.ranks, lowering_, measured_,
                      std::move(inputs));
    located(location_of(model_.path, node), [&] {
      check_definition(node, context);
      const OpSpec* spec = row_of(node, opsets_);
      ir::internal_check(spec != nullptr, "operator {} passed the check of supported operators",
                         node.op_type());
      check_implemented(node, *spec, context);
      if (std::optional<ShapeValues> values = shape_values(context, spec->sizes)) {
        for (std::size_t k = 0; k < values->outputs.size(); ++k)
          define_elements(node, static_cast<int>(k), values->dtype, values->outputs[k]);
        return;
      }
      if (lower_branch(node, context) || lower_loop(node, context)) return;
      if (spec->effect && lowering_.depth() > 0) refuse_communication(node);
      if (!fold_constants(context, *spec)) spec->lower(context);
      for (int k = 0; k < node.output_size(); ++k) define_output(node, k, context);
      if (node.output_size() == 0 || node.output(0).empty()) return;
      if (std::optional<Fractions> fractions = size_fractions(context, spec->sizes))
        values_.at(node.output(0)).fractions = std::move(fractions);
    });
  }

  static void check_implemented(const onnx::NodeProto& node, const OpSpec& spec, OpContext& context) {
    if (!context.has_input(0)) return;
    const Value& value = context.value(0);
    if (value.sequence || value.empty_optional || spec.types.contains(value.dtype)) return;
    throw UnsupportedType{unsupported_type(node, context.version(), value.dtype)};
  }

  [[noreturn]] void refuse_communication(const onnx::NodeProto& node) const {
    user_error(errors::kUnsupportedForm, location_of(model_.path, node),
               "it communicates in a branch or loop that is decided at run time",
               "ranks could decide differently and then wait for each other for ever: communicate before or "
               "after it");
  }

  // Lowers an If. If its condition is known, as where exporters choose by rank or size, the nodes of the
  // branch taken are lowered as if they stood in its place.
  bool lower_branch(const onnx::NodeProto& node, OpContext& context) {
    if (node.op_type() != "If" || domain_of(node) != "" || !context.has_input(0)) return false;
    const std::optional<double> condition = context.constant_scalar(0);
    if (!condition) {
      // A branch that communicates is refused even if it could not be lowered.
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        const onnx::NodeProto* communicating = sharding::find_communication(attribute.g(), opsets_);
        if (communicating != nullptr) refuse_communication(*communicating);
      }
      const std::vector<Value> results =
          branch_at_run_time(node, context, body_lowering(node, context), branches_++, branch_facts_);
      define_copies(node, results);
      return true;
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() != (*condition != 0 ? "then_branch" : "else_branch")) continue;
      lower_body(node, attribute.g());
      lowering_.set_origin(name_of(node));
      const onnx::GraphProto& branch = attribute.g();
      for (int k = 0; k < std::min(node.output_size(), branch.output_size()); ++k)
        define_copy(node, k, values_.at(branch.output(k).name()));
      return true;
    }
    return false;
  }

  // Lowers a Loop or Scan.
  bool lower_loop(const onnx::NodeProto& node, OpContext& context) {
    const std::optional<std::vector<Value>> results = unrolled(node, context, body_lowering(node, context));
    if (!results) return false;
    define_copies(node, *results);
    return true;
  }

  BodyLowering body_lowering(const onnx::NodeProto& node, OpContext& context) {
    return {[&](const onnx::GraphProto& graph) {
              unrolled_nodes_ += graph.node_size() + 1;
              if (unrolled_nodes_ > kMaxUnrolledNodes) {
                context.fail(errors::kUnsupportedForm,
                             fmt::format("the iterations of the model's loops have more than {} nodes",
                                         kMaxUnrolledNodes),
                             "every iteration becomes a part of the program");
              }
              lower_body(node, graph);
            },
            [&](Value value) {
              const std::string name = value.name;
              define(std::move(value));
              mark_uses(name);
            },
            [&](const std::string& name) -> Value& { return values_.at(name); }};
  }

  void define_copies(const onnx::NodeProto& node, const std::vector<Value>& results) {
    lowering_.set_origin(name_of(node));
    for (int k = 0; k < std::min(node.output_size(), static_cast<int>(results.size())); ++k)
      define_copy(node, k, results[static_cast<std::size_t>(k)]);
  }

  // Lowers the nodes of an inner graph, whose inputs are defined.
  void lower_body(const onnx::NodeProto& node, const onnx::GraphProto& body) {
    // A branch is checked only now, when it may be taken.
    if (node.op_type() == "If")
      check_with_onnx(model_, body, [&](const std::string& value) { return values_.count(value) > 0; });
    FileMap files{std::filesystem::path(model_.path)};
    for (onnx::TensorProto initializer : body.initializer()) {
      define_initializer(initializer.name(), take_tensor(initializer, files, location_of(model_.path, node)));
    }
    check_supported(model_, opsets_, body);
    for (const onnx::NodeProto& inner : body.node()) lower(inner);
  }

  void mark_uses(const std::string& name) {
    const Value& defined = values_.at(name);
    if (defined.box.valid()) lowering_.mark_reuse(defined.box, defined.uses);
  }

  void define_elements(const onnx::NodeProto& node, int k, ir::DType dtype, Elements elements) {
    if (node.output(k).empty()) return;
    Value value{node.output(k), dtype, {elements.sizes.begin(), elements.sizes.end()}};
    value.elements = std::move(elements);
    compare_with_declaration(node, value);
    define(std::move(value));
  }

  void define_output(const onnx::NodeProto& node, int k, OpContext& context) {
    if (node.output(k).empty()) return;
    const auto index = static_cast<std::size_t>(k);
    if (context.values()[index]) return define_copy(node, k, *context.values()[index]);
    Value value{node.output(k)};
    if (context.constants()[index]) {
      value.constant = context.constants()[index];
      value.dtype = value.constant->dtype;
      value.sizes.assign(value.constant->sizes.begin(), value.constant->sizes.end());
    } else if (context.outputs()[index].valid()) {
      value.box = context.outputs()[index];
      value.dtype = value.box.dtype();
      value.sizes = value.box.sizes();
      lowering_.set_name(value.box, value.name);
      if (k == 0) value.columns = context.columns();
      if (k == 0) value.quantised = context.quantised();
    } else if (uses_.count(value.name)) {
      context.fail(errors::kUnsupportedForm, fmt::format("output {} is not supported", k), "");
    } else {
      return;
    }
    check_size(node, value);
    compare_with_declaration(node, value);
    const bool has_box = value.box.valid();
    define(std::move(value));
    const Value& defined = values_.at(node.output(k));
    if (has_box) lowering_.mark_reuse(defined.box, defined.uses);
  }

  // Output k is an existing value, or a sequence of some.
  void define_copy(const onnx::NodeProto& node, int k, Value value) {
    if (node.output(k).empty()) return;
    value.name = node.output(k);
    define(std::move(value));
    const Value& defined = values_.at(node.output(k));
    const auto read_by = [&](const Value& v) {
      if (v.box.valid()) lowering_.mark_reuse(v.box, defined.uses);
    };
    read_by(defined);
    if (!defined.sequence) return;
    for (const Value& element : *defined.sequence) read_by(element);
  }

  // Bytes at the upper bounds must fit 64 bits, even if nothing of that size is ever stored.
  void check_size(const onnx::NodeProto& node, const Value& value) {
    std::vector<std::int64_t> largest;
    for (const Expr& s : value.sizes) {
      largest.push_back(std::max<std::int64_t>(ir::bounds(s).max, 0));
      if (ir::bounds(s).max < 0) {
        user_error(errors::kShapeMismatch, location_of(model_.path, node),
                   fmt::format("'{}' would have the size {}", value.name, to_string(s)),
                   "check the shapes of the node's inputs");
      }
      if (ir::bounds(s).min < 0) lowering_.require_at_most(0, s);
      if (!ir::depends_on_rank(s)) continue;
      user_error(errors::kRankWeightDecidesShape, location_of(model_.path, node),
                 fmt::format("'{}' would have the size {}, which differs between the ranks", value.name,
                             to_string(s)),
                 "all ranks run one program, so sizes must be equal on all ranks");
    }
    checked_bytes(largest, value.dtype, location_of(model_.path, node), value.name);
  }

  // Tells how the model's declaration differs from the actual value, as exporters often write a wrong one. In
  // a model of several ranks it is an error: the model was split for another number of ranks, or wrongly.
  void compare_with_declaration(const onnx::NodeProto& node, const Value& value) const {
    const auto found = declared_.find(value.name);
    if (found == declared_.end()) return;
    const onnx::TypeProto_Tensor& declared = *found->second;
    const auto tell = [&](int code, const std::string& as, const std::string& is) {
      // A value of a type that the IR lacks has another meaning.
      const bool known = declared.elem_type() == 0 || dtype_of_onnx(declared.elem_type());
      if (!known || communicates_ || options_.ranks > 1)
        user_error(code, location_of(model_.path, node),
                   fmt::format("'{}' is declared {}, but on {} rank{} {}", value.name, as, options_.ranks,
                               options_.ranks == 1 ? "" : "s", is),
                   known ? "compile for the model's number of ranks (--ranks), or correct the declaration"
                         : "only labels that a graph output returns may be strings");
      if (options_.note)
        options_.note(fmt::format("'{}' of node '{}' ({}) is declared {}, but {}", value.name, name_of(node),
                                  node.op_type(), as, is));
    };
    if (declared.elem_type() != 0 && dtype_of_onnx(declared.elem_type()) != value.dtype)
      tell(errors::kTypeMismatch, "as " + onnx_type_name(declared.elem_type()),
           fmt::format("it is {}", to_string(value.dtype)));
    if (!declared.has_shape()) return;
    const auto rank = static_cast<std::size_t>(declared.shape().dim_size());
    if (rank != value.sizes.size())
      return tell(errors::kShapeMismatch, fmt::format("with {} dimension{}", rank, rank == 1 ? "" : "s"),
                  fmt::format("it has {}", value.sizes.size()));
    for (std::size_t k = 0; k < rank; ++k) {
      const auto& dim = declared.shape().dim(static_cast<int>(k));
      const ir::Bounds actual = ir::bounds(value.sizes[k]);
      if (!dim.has_dim_value() || (dim.dim_value() >= actual.min && dim.dim_value() <= actual.max)) continue;
      tell(errors::kShapeMismatch, fmt::format("with size {} along axis {}", dim.dim_value(), k),
           fmt::format("it has {}", to_string(value.sizes[k])));
    }
  }

  const Model& model_;
  const Opsets& opsets_;
  const LowerOptions& options_;
  const BranchFacts& branch_facts_;
  int branches_ = 0;  // at run time
  bool communicates_ = false;
  std::unordered_map<std::string, const onnx::TypeProto_Tensor*> declared_;  // of values that nodes compute
  ir::Schedule schedule_;
  ir::Lowering lowering_;
  MeasuredSizes measured_;
  std::vector<bool> live_;  // by node
  Uses uses_;
  std::map<int, AttentionPattern> patterns_;  // by the node that is the result
  std::unordered_set<int> held_back_;         // nodes inside of patterns
  std::unordered_map<std::string, int> producers_;
  Values values_;
  std::vector<UnsupportedOperator> unsupported_;
  std::unordered_set<std::string> unknown_;  // results of these, and values computed from them
  std::int64_t unrolled_nodes_ = 0;
};

// Calls `lower` until it knows all branches that fail, and those whose results differ in their sizes.
template <class Lower>
auto with_branch_facts(const LowerOptions& options, const Lower& lower) {
  BranchFacts facts;
  for (;;) {
    try {
      auto lowered = lower(facts);
      if (facts.found.empty()) return lowered;
    } catch (const BranchFails& branch) {
      if (facts.found.empty()) {
        // A failing branch is not lowered, so later numbers are those of other nodes.
        facts.failing.erase(facts.failing.lower_bound({branch.number + 1, false}), facts.failing.end());
        facts.unequal.erase(facts.unequal.lower_bound({branch.number, 0}), facts.unequal.end());
        facts.failing.emplace(std::pair(branch.number, branch.condition), branch.error);
        if (options.note)
          options.note(fmt::format("a step that takes a branch of If fails: node '{}' ({}): {}",
                                   branch.error.location().node, branch.error.location().op,
                                   branch.error.message()));
      }
    } catch (...) {
      if (facts.found.empty()) throw;  // otherwise it may come from sizes that are not equal
    }
    facts.unequal.merge(facts.found);
    facts.found.clear();
  }
}

}  // namespace

ir::Schedule lower_graph(const Model& model, const Opsets& opsets, const LowerOptions& options) {
  return with_branch_facts(
      options, [&](const BranchFacts& facts) { return GraphLowering(model, opsets, options, facts).run(); });
}

void rewrite_nodes(Model& model, const Opsets& opsets, const DimBounds& dims, int ranks,
                   const Rewrite& rewrite) {
  GraphFacts facts;
  // No program is made, and no size must seem to be too small for another one.
  const LowerOptions options{
      .dims = dims,
      .ranks = ranks,
      .facts = &facts,
      .measure = {.allowed = true, .default_capacity = std::numeric_limits<std::int32_t>::max()}};
  std::vector<onnx::NodeProto> nodes = with_branch_facts(options, [&](const BranchFacts& facts) {
    return GraphLowering(model, opsets, options, facts).rewritten(rewrite);
  });
  auto& all = *model.proto.mutable_graph()->mutable_node();
  all.Clear();
  for (onnx::NodeProto& node : nodes) *all.Add() = std::move(node);
}

}  // namespace braid::frontend
