#include "frontend/sharding/onnx_graph.h"

#include <algorithm>
#include <set>

#include "frontend/op_registry.h"
#include "frontend/schemas.h"
#include "frontend/sharding/node_order.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

std::string domain_of(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? std::string() : node.domain();
}

// Inputs that go on in outputs, such as a past of keys in the present: by operator.
struct CarriedBy {
  const char* domain;
  const char* op;
  Carried carried;
};
constexpr CarriedBy kCarried[] = {
    {"", "Identity", {0, 0}},
    {"", "Concat", {0, -1}},
    {"", "TensorScatter", {0, 0}},
    {"", "ScatterND", {0, 0}},
    {"", "ScatterElements", {0, 0}},
    {"", "Where", {0, 1}},
    {"", "Where", {0, 2}},
    {"", "Attention", {1, 4}},
    {"", "Attention", {2, 5}},
    {kMicrosoftDomain, "Attention", {1, 4}},
    {kMicrosoftDomain, "GroupQueryAttention", {1, 3}},
    {kMicrosoftDomain, "GroupQueryAttention", {2, 4}},
    {kMicrosoftDomain, "MultiHeadAttention", {1, 6}},
    {kMicrosoftDomain, "MultiHeadAttention", {2, 7}},
};

std::vector<Carried> carried_by(const std::string& domain, const std::string& op) {
  std::vector<Carried> all;
  for (const CarriedBy& row : kCarried)
    if (domain == row.domain && op == row.op) all.push_back(row.carried);
  return all;
}

// Whether the sequences of a recurrence lie in dimension 1.
bool batch_first(const onnx::NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.name() == "layout" && attribute.i() != 0;
  });
}

class OnnxOperation : public Operation {
 public:
  OnnxOperation(const onnx::NodeProto& proto, int version, const Work& work, const Rule* rule)
      : proto_(proto), version_(version), work_(work), rule_(rule) {}

  double flops(const Operands& operands) const override { return of(work_.flops, operands); }
  double passed_on(const Operands& operands) const override { return of(work_.passed_on, operands); }
  double tables(const Operands& operands) const override { return of(work_.tables, operands); }
  std::vector<ConversionStep> inner(const Graph& graph, const GraphNode& node, const Strategy& strategy,
                                    int ranks) const override {
    if (rule_ == nullptr || rule_->inner == nullptr) return {};
    return rule_->inner(NodeView(graph, node), strategy, ranks);
  }
  std::vector<std::string> attributes() const override {
    std::vector<std::string> texts;
    for (const onnx::AttributeProto& attribute : proto_.attribute())
      texts.push_back(attribute.SerializeAsString());
    return texts;
  }

  const onnx::NodeProto& proto() const { return proto_; }
  const Rule* rule() const { return rule_; }

 private:
  double of(WorkFormula formula, const Operands& operands) const {
    if (formula == nullptr) return 0;
    WorkNode node{operands};
    node.proto = &proto_;
    node.version = version_;
    return formula(node, work_);
  }

  const onnx::NodeProto& proto_;
  int version_;
  Work work_;
  const Rule* rule_;
};

class Builder {
 public:
  Builder(const Model& model, const Opsets& opsets, const GraphFacts& facts)
      : model_(model), opsets_(opsets), facts_(facts) {}

  Graph run() {
    const onnx::GraphProto& proto = model_.proto.graph();
    if (const auto own = opsets_.find(""); own != opsets_.end()) graph_.onnx_version = own->second;
    for (const onnx::ValueInfoProto* input : true_inputs(model_)) {
      const int v = value(input->name());
      graph_.values[static_cast<std::size_t>(v)].graph_input = true;
      graph_.inputs.push_back(v);
    }
    std::set<std::string> captured;
    for (int k = 0; k < proto.node_size(); ++k) {
      if (!facts_.live[static_cast<std::size_t>(k)]) continue;
      add(proto.node(k));
      collect_captured(proto.node(k), captured);
    }
    for (int k = 0; k < proto.output_size(); ++k) {
      const int v = value(proto.output(k).name());
      graph_.values[static_cast<std::size_t>(v)].readers.push_back({-1, k});
      graph_.outputs.push_back(v);
    }
    for (GraphValue& v : graph_.values) v.pinned |= captured.count(v.name) > 0;
    for (GraphNode& node : graph_.nodes) {
      node.compile_time = is_compile_time(node);
      if (!node.compile_time && node.has_letters) node.factors = factors_of(graph_, node, *rule_of(node));
    }
    find_kinds(graph_);
    return std::move(graph_);
  }

 private:
  int value(const std::string& name) {
    if (name.empty()) return -1;
    const auto [at, added] = graph_.index.try_emplace(name, static_cast<int>(graph_.values.size()));
    if (!added) return at->second;
    GraphValue v;
    v.name = name;
    const auto found = facts_.values.find(name);
    if (found == facts_.values.end()) {  // an output that nothing reads
      v.pinned = true;
    } else {
      const ValueFacts& f = found->second;
      v.dtype = f.dtype;
      v.sizes = f.sizes;
      v.constant = f.constant;
      v.elements = f.elements;
      v.pinned = !f.tensor || f.from_sizes || (f.elements && !f.constant);
    }
    graph_.values.push_back(std::move(v));
    return at->second;
  }

  void add(const onnx::NodeProto& proto) {
    const std::string domain = domain_of(proto);
    const auto opset = opsets_.find(domain);
    const int version = opset == opsets_.end() ? 1 : opset->second;
    const OpSpec* spec = find_op(domain, proto.op_type(), version);
    ir::internal_check(spec != nullptr, "operator {} was lowered without a row", proto.op_type());
    const Rule* rule = find_rule(domain, proto.op_type());
    GraphNode node;
    node.name = proto.name();
    node.label = name_of(proto);
    node.op = proto.op_type();
    node.domain = domain;
    node.version = version;
    node.operation = std::make_shared<OnnxOperation>(proto, version, spec->work, rule);
    node.work = spec->work;
    if (node.work.kind == WorkKind::recurrence) node.work.steps = batch_first(proto) ? 1 : 0;
    node.has_letters = rule != nullptr && rule->factors != nullptr;
    node.reason = rule == nullptr ? "no rule" : rule->reason;
    node.carried = carried_by(domain, proto.op_type());
    const int index = static_cast<int>(graph_.nodes.size());
    for (int k = 0; k < proto.input_size(); ++k) {
      const int v = value(proto.input(k));
      node.inputs.push_back(v);
      if (v >= 0) graph_.values[static_cast<std::size_t>(v)].readers.push_back({index, k});
    }
    for (const std::string& name : proto.output()) {
      const int v = value(name);
      node.outputs.push_back(v);
      if (v >= 0) graph_.values[static_cast<std::size_t>(v)].producer = index;
    }
    graph_.nodes.push_back(std::move(node));
  }

  bool is_compile_time(const GraphNode& node) const {
    // Sizes of a tensor are known whatever its state is; everything else computes with what is pinned.
    const bool reads_sizes = node.work.kind == WorkKind::sizes;
    const bool reads_known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int v) {
      return v < 0 || graph_.values[static_cast<std::size_t>(v)].constant ||
             graph_.values[static_cast<std::size_t>(v)].elements;
    });
    if (!reads_sizes && !reads_known) return false;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](int v) {
      if (v < 0) return true;
      const GraphValue& value = graph_.values[static_cast<std::size_t>(v)];
      return value.readers.empty() || value.constant || value.elements;
    });
  }

  const Model& model_;
  const Opsets& opsets_;
  const GraphFacts& facts_;
  Graph graph_;
};

}  // namespace

const onnx::NodeProto& proto_of(const GraphNode& node) {
  return static_cast<const OnnxOperation&>(*node.operation).proto();
}
const Rule* rule_of(const GraphNode& node) {
  return static_cast<const OnnxOperation&>(*node.operation).rule();
}

Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts) {
  return Builder(model, opsets, facts).run();
}

}  // namespace braid::frontend::sharding
