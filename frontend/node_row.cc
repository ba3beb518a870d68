#include "frontend/node_row.h"

namespace braid::frontend {

std::string domain_of(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? std::string() : node.domain();
}

int version_of(const onnx::NodeProto& node, const Opsets& opsets) {
  const auto found = opsets.find(domain_of(node));
  return found == opsets.end() ? 1 : found->second;
}

const OpSpec* row_of(const onnx::NodeProto& node, const Opsets& opsets) {
  return find_op(domain_of(node), node.op_type(), version_of(node, opsets));
}

}  // namespace braid::frontend
