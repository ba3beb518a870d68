#include "frontend/bind_inputs.h"

#include <unordered_map>
#include <vector>

#include "frontend/node_row.h"

namespace braid::frontend {

void bind_inputs(Model& model, const InputValues& values, const std::set<std::string>& bound) {
  for (const std::string& name : bound) {
    const ir::Tensor& value = values.at(name);
    ir::DType dtype = value.dtype;
    // Values of storage types come as bytes.
    for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
      const std::optional<ir::DType> declared = dtype_of_onnx(input.type().tensor_type().elem_type());
      if (input.name() == name && declared && byte_type(*declared) == dtype) dtype = *declared;
    }
    model.initializers.emplace(name, Tensor{dtype, value.sizes, ir::own_bytes(value.bytes)});
  }
}

namespace {

// Finds all values from which a value is computed. The reads of a branch count as reads of the node that
// holds the branch: an output of If depends on all values that its branches read.
class Sources {
 public:
  explicit Sources(const onnx::GraphProto& graph) { visit(graph); }

  std::set<std::string> of(const std::string& value) const {
    std::set<std::string> found;
    std::vector<std::string> open{value};
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (!found.insert(name).second) continue;
      if (const auto producer = reads_.find(name); producer != reads_.end())
        open.insert(open.end(), producer->second.begin(), producer->second.end());
    }
    return found;
  }

 private:
  std::vector<std::string> visit(const onnx::GraphProto& graph) {
    std::vector<std::string> all;
    for (const onnx::NodeProto& node : graph.node()) {
      std::vector<std::string> reads;
      // Sizes are no values of the input.
      const OpSpec* row = find_op(domain_of(node), node.op_type(), kNewestOpset);
      if (row == nullptr || row->work.kind != WorkKind::sizes)
        reads.assign(node.input().begin(), node.input().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        const std::vector<std::string> inner = visit(attribute.g());
        reads.insert(reads.end(), inner.begin(), inner.end());
      }
      all.insert(all.end(), reads.begin(), reads.end());
      for (const std::string& output : node.output()) reads_[output] = reads;
    }
    return all;
  }

  std::unordered_map<std::string, std::vector<std::string>> reads_;  // by output
};

}  // namespace

std::set<std::string> inputs_behind(const Model& model, const std::string& value) {
  std::set<std::string> inputs;
  const std::set<std::string> sources = Sources(model.proto.graph()).of(value);
  for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
    if (sources.count(input.name()) && !model.initializers.count(input.name())) inputs.insert(input.name());
  }
  return inputs;
}

}  // namespace braid::frontend
