#include "frontend/inspect.h"

#include <algorithm>

#include "frontend/check_structure.h"
#include "frontend/check_supported.h"
#include "frontend/class_outputs.h"
#include "frontend/convert_version.h"
#include "frontend/dead_nodes.h"
#include "frontend/dims.h"
#include "frontend/import.h"
#include "frontend/load.h"
#include "frontend/load_ranks.h"
#include "frontend/op_registry.h"
#include "frontend/schemas.h"
#include "frontend/signature.h"
#include "frontend/tensor.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using Counts = std::map<std::pair<std::string, std::string>, int>;  // by domain and name

template <class Nodes>
void count(const Nodes& nodes, Counts& counts) {
  for (const onnx::NodeProto& node : nodes) {
    ++counts[{node.domain() == "ai.onnx" ? "" : node.domain(), node.op_type()}];
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count(attribute.g().node(), counts);
      for (const onnx::GraphProto& graph : attribute.graphs()) count(graph.node(), counts);
    }
  }
}

bool communicates(const std::string& domain, const std::string& name) {
  const std::vector<OpSpec> all = all_ops();
  return std::any_of(all.begin(), all.end(),
                     [&](const OpSpec& op) { return op.effect && op.domain == domain && op.name == name; });
}

template <class Infos>
std::vector<ModelFacts::Value> values(const std::vector<SignatureValue>& signature, const Infos& types) {
  std::vector<ModelFacts::Value> all;
  for (std::size_t k = 0; k < signature.size(); ++k) {
    const SignatureValue& s = signature[k];
    std::string type = s.kind;
    if (s.kind == "tensor") {
      const int element = types[k]->type().tensor_type().elem_type();
      const auto dtype = dtype_of_onnx(element);
      type = dtype ? std::string(to_string(*dtype)) : onnx_type_name(element);
    }
    const bool ranked = s.kind != "tensor" || types[k]->type().tensor_type().has_shape();
    all.push_back({s.name, type, s.dims, ranked});
  }
  return all;
}

void add_unsupported(std::vector<UnsupportedOperator> all, ModelFacts& facts) {
  for (UnsupportedOperator& u : all)
    facts.unsupported.push_back({std::move(u.op), std::move(u.reason), std::move(u.nodes)});
}

// Lowers the model for small sizes and one rank, which finds operators that are not implemented for their
// element types. Another error counts only if it is due to neither the sizes nor the number of ranks.
void lower_small(const std::string& path, ModelFacts& facts) {
  constexpr ir::Bounds kSmall{1, 8};
  try {
    import_model(path_of_rank(path, 0), {.dims = default_dims(facts.dims, {}, kSmall)});
  } catch (const UnsupportedOperators& error) {
    add_unsupported(error.list(), facts);
  } catch (const ir::UserError& error) {
    const bool communicates = std::ranges::any_of(facts.operators, &ModelFacts::Operator::communicates);
    const bool of_a_node = error.code() == errors::kInvalidAttribute ||
                           error.code() == errors::kInvalidNode || error.code() == errors::kTypeMismatch;
    if (of_a_node && facts.dims.empty() && !communicates) facts.refused = error;
  }
}

}  // namespace

ModelFacts inspect_model(const std::string& path) {
  register_schemas();
  Model model = load_model(path_of_rank(path, 0));
  ModelFacts facts;
  facts.ir_version = model.proto.ir_version();
  facts.producer = model.proto.producer_name();
  if (!model.proto.producer_version().empty()) facts.producer += " " + model.proto.producer_version();
  for (const auto& import : model.proto.opset_import()) {
    const std::string domain = import.domain().empty() ? "ai.onnx" : import.domain();
    facts.opsets[domain] = static_cast<int>(import.version());
  }
  const Signature signature = read_signature(path);
  facts.inputs = values(signature.inputs, true_inputs(model));
  std::vector<const onnx::ValueInfoProto*> outputs;
  for (const onnx::ValueInfoProto& o : model.proto.graph().output()) outputs.push_back(&o);
  facts.outputs = values(signature.outputs, outputs);
  leave_out_maps_and_strings(model, {});
  for (ModelFacts::Value& output : facts.outputs) {
    if (const auto classes = model.classes.find(output.name); classes != model.classes.end())
      output.classes = classes->second;
  }
  facts.dims = dimension_names(model);
  facts.weights = static_cast<std::int64_t>(model.initializers.size());
  for (const auto& [name, tensor] : model.initializers)
    facts.weight_bytes += tensor.count() * ir::size_of(tensor.dtype);

  Counts counts;
  count(model.proto.graph().node(), counts);
  for (const onnx::FunctionProto& f : model.proto.functions()) count(f.node(), counts);
  for (const auto& [op, n] : counts)
    facts.operators.push_back({op.first, op.second, n, communicates(op.first, op.second)});
  std::stable_sort(facts.operators.begin(), facts.operators.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  try {
    const Opsets opsets = check_versions(model);
    check_structure(model, opsets);
    drop_dead_nodes(model, lowered_opsets(opsets));
    add_unsupported(unsupported_operators(model, lowered_opsets(opsets)), facts);
    if (facts.unsupported.empty()) lower_small(path, facts);
  } catch (const ir::UserError& error) {
    facts.refused = error;
  }
  return facts;
}

}  // namespace braid::frontend
