#include "frontend/sharding/onnx_graph.h"

#include <algorithm>
#include <set>

#include "frontend/node_row.h"
#include "frontend/sharding/node_order.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

// Whether the sequences of a recurrence lie in dimension 1.
bool batch_first(const onnx::NodeProto& node) {
  return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.name() == "layout" && attribute.i() != 0;
  });
}

class OnnxOperation : public Operation {
 public:
  OnnxOperation(const onnx::NodeProto& proto, int version, const OpSpec& spec)
      : proto_(proto), version_(version), work_(spec.work), rule_(spec.rule) {}

  double flops(const Operands& operands) const override { return of(work_.flops, operands); }
  double passed_on(const Operands& operands) const override { return of(work_.passed_on, operands); }
  double tables(const Operands& operands) const override { return of(work_.tables, operands); }
  std::vector<ConversionStep> inner(const Graph& graph, const GraphNode& node, const Strategy& strategy,
                                    int ranks) const override {
    if (rule_.inner == nullptr) return {};
    return rule_.inner(NodeView(graph, node), strategy, ranks);
  }
  std::vector<std::string> attributes() const override {
    std::vector<std::string> texts;
    for (const onnx::AttributeProto& attribute : proto_.attribute())
      texts.push_back(attribute.SerializeAsString());
    return texts;
  }

  const onnx::NodeProto& proto() const { return proto_; }
  const Rule& rule() const { return rule_; }

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
  Rule rule_;
};

class Builder {
 public:
  Builder(const Model& model, const Opsets& opsets, const GraphFacts& facts)
      : model_(model), opsets_(opsets), facts_(facts) {}

  Graph run() {
    const onnx::GraphProto& proto = model_.proto.graph();
    if (const auto own = opsets_.find(""); own != opsets_.end()) graph_.onnx_version = own->second;
    for (const onnx::ValueInfoProto* input : true_inputs(model_)) {
      const ValueId v = value(input->name());
      graph_.values[v].graph_input = true;
      graph_.inputs.push_back(v);
    }
    std::set<std::string> captured;
    for (int k = 0; k < proto.node_size(); ++k) {
      if (!facts_.live[k]) continue;
      add(proto.node(k));
      collect_captured(proto.node(k), captured);
    }
    for (int k = 0; k < proto.output_size(); ++k) {
      const ValueId v = value(proto.output(k).name());
      graph_.values[v].readers.push_back({{}, k});
      graph_.outputs.push_back(v);
    }
    for (GraphValue& v : graph_.values) v.pinned |= captured.count(v.name) > 0;
    for (GraphNode& node : graph_.nodes) {
      node.compile_time = is_compile_time(node);
      if (!node.compile_time && node.has_letters) node.factors = factors_of(graph_, node, rule_of(node));
    }
    find_kinds(graph_);
    return std::move(graph_);
  }

 private:
  ValueId value(const std::string& name) {
    if (name.empty()) return {};
    const auto [at, added] = graph_.index.try_emplace(name, graph_.values.end_id());
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
    const OpSpec* spec = row_of(proto, opsets_);
    ir::internal_check(spec != nullptr, "operator {} was lowered without a row", proto.op_type());
    GraphNode node;
    node.name = proto.name();
    node.label = name_of(proto);
    node.op = proto.op_type();
    node.domain = domain_of(proto);
    node.version = version_of(proto, opsets_);
    node.operation = std::make_shared<OnnxOperation>(proto, node.version, *spec);
    node.work = spec->work;
    if (node.work.kind == WorkKind::recurrence) node.work.steps = batch_first(proto) ? 1 : 0;
    node.has_letters = spec->rule.factors != nullptr;
    node.reason = spec->rule.reason;
    node.carried = spec->state.carried;
    const NodeId id = graph_.nodes.end_id();
    for (int k = 0; k < proto.input_size(); ++k) {
      const ValueId v = value(proto.input(k));
      node.inputs.push_back(v);
      if (v.valid()) graph_.values[v].readers.push_back({id, k});
    }
    for (const std::string& name : proto.output()) {
      const ValueId v = value(name);
      node.outputs.push_back(v);
      if (v.valid()) graph_.values[v].producer = id;
    }
    graph_.nodes.push_back(std::move(node));
  }

  bool is_compile_time(const GraphNode& node) const {
    // Sizes of a tensor are known whatever its state is; everything else computes with what is pinned.
    const bool reads_sizes = node.work.kind == WorkKind::sizes;
    const bool reads_known = std::ranges::all_of(node.inputs, [&](ValueId v) {
      return !v.valid() || graph_.values[v].constant || graph_.values[v].elements;
    });
    if (!reads_sizes && !reads_known) return false;
    return std::ranges::all_of(node.outputs, [&](ValueId v) {
      if (!v.valid()) return true;
      const GraphValue& value = graph_.values[v];
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
const Rule& rule_of(const GraphNode& node) {
  return static_cast<const OnnxOperation&>(*node.operation).rule();
}

Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts) {
  return Builder(model, opsets, facts).run();
}

}  // namespace braid::frontend::sharding
