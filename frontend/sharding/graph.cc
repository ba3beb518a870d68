#include "frontend/sharding/graph.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "frontend/op_registry.h"
#include "frontend/sharding/node_order.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

std::string domain_of(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? std::string() : node.domain();
}

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
    for (GraphNode& node : graph_.nodes) node.compile_time = is_compile_time(node);
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
    GraphNode node{.proto = &proto,
                   .domain = domain,
                   .version = version,
                   .inputs = {},
                   .outputs = {},
                   .rule = find_rule(domain, proto.op_type()),
                   .work = spec->work};
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

// Texts of bytes, by which things are compared.
template <class... Values>
void add(std::string& text, const Values&... values) {
  static_assert((std::is_scalar_v<Values> && ...));
  (text.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
}
void add_size(std::string& text, const ir::Expr& e) {
  add(text, e.node(), e.is_constant() ? e.constant() : 0);
}

std::string text_of(const GraphValue& value) {
  std::string text;
  add(text, value.dtype, value.pinned, value.constant.has_value(), value.elements.has_value(),
      value.graph_input, value.readers.empty(), value.sizes.size());
  for (const ir::Expr& size : value.sizes) add_size(text, size);
  if (value.elements) {
    add(text, value.elements->values.size());
    for (const ir::Expr& element : value.elements->values) add_size(text, element);
  }
  return text;
}

std::string text_of(const Graph& graph, const GraphNode& node) {
  std::string text = node.proto->op_type() + '\0' + node.domain + '\0';
  add(text, node.rule, node.version, node.proto->attribute_size());
  for (const onnx::AttributeProto& attribute : node.proto->attribute()) {
    const std::string own = attribute.SerializeAsString();
    add(text, own.size());
    text += own;
  }
  for (const std::vector<int>* list : {&node.inputs, &node.outputs}) {
    add(text, list->size());
    for (const int v : *list) {
      // Which of the list it is first.
      add(text, v < 0 ? -1 : static_cast<int>(std::ranges::find(*list, v) - list->begin()));
      if (v >= 0) add(text, graph.values[static_cast<std::size_t>(v)].kind);
    }
  }
  return text;
}

}  // namespace

void find_kinds(Graph& graph) {
  for (GraphValue& value : graph.values) value.moved_constant = value.constant.has_value();
  for (const GraphNode& node : graph.nodes) {
    const auto is_known = [&](int v) {
      return v < 0 || graph.values[static_cast<std::size_t>(v)].moved_constant;
    };
    if ((node.work.kind != WorkKind::view && !is_moved(node.work.kind)) ||
        !std::ranges::all_of(node.inputs, is_known))
      continue;
    for (const int v : node.outputs) {
      // A stage is given what nodes outside of it compute.
      GraphValue* value = v < 0 ? nullptr : &graph.values[static_cast<std::size_t>(v)];
      if (value != nullptr && value->producer >= 0) value->moved_constant = true;
    }
  }
  std::unordered_map<std::string, int> values, nodes;
  for (GraphValue& value : graph.values)
    value.kind = values.try_emplace(text_of(value), static_cast<int>(values.size())).first->second;
  for (GraphNode& node : graph.nodes)
    node.kind = nodes.try_emplace(text_of(graph, node), static_cast<int>(nodes.size())).first->second;
  graph.value_kinds = static_cast<int>(values.size());
}

int Graph::find(const std::string& name) const {
  const auto at = index.find(name);
  return at == index.end() ? -1 : at->second;
}

Graph make_graph(const Model& model, const Opsets& opsets, const GraphFacts& facts) {
  return Builder(model, opsets, facts).run();
}

std::optional<std::int64_t> static_size(const ir::Expr& size) {
  if (!size.is_constant()) return std::nullopt;
  return size.constant();
}

}  // namespace braid::frontend::sharding
