#include "frontend/sharding/node_order.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/id_vector.h"

namespace braid::frontend::sharding {

namespace {

// Adds the names in the order in which the bodies read them.
void add_captured(const onnx::NodeProto& node, std::vector<std::string>& names) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      names.insert(names.end(), inner.input().begin(), inner.input().end());
      add_captured(inner, names);
    }
    for (const onnx::ValueInfoProto& output : attribute.g().output()) names.push_back(output.name());
  }
}

class NodeOrder {
 public:
  explicit NodeOrder(const onnx::GraphProto& graph) {
    std::unordered_map<std::string, int> producers;
    for (int k = 0; k < graph.node_size(); ++k) {
      for (const std::string& output : graph.node(k).output())
        if (!output.empty()) producers[output] = k;
    }
    const auto add = [&](const std::string& name, std::vector<int>& to) {
      if (const auto found = producers.find(name); found != producers.end()) to.push_back(found->second);
    };
    needs_.resize(graph.node_size());
    for (int k = 0; k < graph.node_size(); ++k) {
      const onnx::NodeProto& node = graph.node(k);
      std::vector<std::string> names(node.input().begin(), node.input().end());
      add_captured(node, names);
      for (const std::string& name : names) add(name, needs_[k]);
    }
    for (const onnx::ValueInfoProto& output : graph.output()) add(output.name(), outputs_);
  }

  std::vector<int> found() const {
    std::vector<char> seen(needs_.size(), 0);
    std::vector<int> order;
    std::vector<std::pair<int, std::size_t>>
        stack;  // node, next of its needs; not the call stack: graphs may be deep
    const auto visit = [&](int node) {
      if (!std::exchange(seen[node], 1)) stack.emplace_back(node, 0);
      while (!stack.empty()) {
        auto& [top, next] = stack.back();
        const std::vector<int>& needs = needs_[top];
        if (next == needs.size()) {
          order.push_back(top);
          stack.pop_back();
        } else if (const int need = needs[next++]; !std::exchange(seen[need], 1)) {
          stack.emplace_back(need, 0);
        }
      }
    };
    for (const int output : outputs_) visit(output);
    for (int k = 0; k < ir::count_of(needs_); ++k) visit(k);
    return order;
  }

 private:
  std::vector<std::vector<int>> needs_;  // by node
  std::vector<int> outputs_;             // nodes
};

}  // namespace

void collect_captured(const onnx::NodeProto& node, std::set<std::string>& names) {
  std::vector<std::string> all;
  add_captured(node, all);
  names.insert(all.begin(), all.end());
}

void order_by_outputs(onnx::GraphProto& graph) {
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const int k : NodeOrder(graph).found()) nodes.Add()->Swap(graph.mutable_node(k));
  graph.mutable_node()->Swap(&nodes);
}

}  // namespace braid::frontend::sharding
