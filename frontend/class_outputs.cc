#include "frontend/class_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "frontend/node_row.h"

namespace braid::frontend {
namespace {

using Names = std::vector<std::string>;

Names names_in(const onnx::NodeProto& node, std::initializer_list<const char*> attributes) {
  Names names;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (std::find(attributes.begin(), attributes.end(), attribute.name()) == attributes.end()) continue;
    names.insert(names.end(), attribute.strings().begin(), attribute.strings().end());
    for (const std::int64_t number : attribute.ints()) names.push_back(std::to_string(number));
  }
  return names;
}

std::string shown(const Names& names) {
  constexpr std::size_t kMost = 8;
  if (names.size() <= kMost) return fmt::format("{}", names);
  return fmt::format("{} and {} more", Names(names.begin(), names.begin() + kMost), names.size() - kMost);
}

// The strings of which output k of a node has positions; empty if it has none. A LabelEncoder has one more,
// for elements that it does not know.
Names strings_of(const onnx::NodeProto& node, int k) {
  if (node.domain() != kMlDomain || k != 0) return {};
  if (node.op_type() != "LabelEncoder") return names_in(node, {"classlabels_strings"});
  Names names = names_in(node, {"values_strings", "classes_strings"});
  if (names.empty()) return names;
  const Names given = names_in(node, {"keys_strings", "keys_tensor"});
  std::string other = "_Unused";
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "default_string") other = attribute.s();
  }
  if (given.empty()) names.push_back(other);
  return names;
}

class Outputs {
 public:
  Outputs(Model& model, const std::function<void(const std::string& text)>& note)
      : model_(model), graph_(*model.proto.mutable_graph()), note_(note) {}

  void run() {
    bool maps = false;
    for (onnx::NodeProto& node : *graph_.mutable_node()) {
      if (node.domain() == kMlDomain && node.op_type() == "ZipMap") {
        leave_out(node);
        maps = true;
      }
    }
    if (maps) import_onnx();
    for (const onnx::OperatorSetIdProto& import : model_.proto.opset_import())
      opsets_[import.domain() == "ai.onnx" ? "" : import.domain()] = static_cast<int>(import.version());
    for (const onnx::NodeProto& node : graph_.node()) {
      for (int k = 0; k < node.output_size(); ++k) producers_[node.output(k)] = {&node, k};
    }
    for (onnx::ValueInfoProto& value : *graph_.mutable_value_info()) declare(value);
    for (onnx::ValueInfoProto& output : *graph_.mutable_output()) name_classes(output);
  }

 private:
  void leave_out(onnx::NodeProto& node) {
    const Names classes = names_in(node, {"classlabels_int64s", "classlabels_strings"});
    node.clear_attribute();
    node.clear_domain();
    node.set_op_type("Identity");
    for (onnx::ValueInfoProto& output : *graph_.mutable_output()) {
      if (node.output_size() == 0 || output.name() != node.output(0)) continue;
      output.clear_type();
      model_.classes[output.name()] = classes;
      tell(fmt::format("output '{}' has a column for each class, {}, instead of a list of maps",
                       output.name(), shown(classes)));
    }
  }

  // Identity is in ONNX's own domain, which the model may not have imported.
  void import_onnx() {
    for (const onnx::OperatorSetIdProto& import : model_.proto.opset_import()) {
      if (import.domain().empty() || import.domain() == "ai.onnx") return;
    }
    constexpr int kIdentity = 13;
    onnx::OperatorSetIdProto& import = *model_.proto.add_opset_import();
    import.set_domain("");
    import.set_version(kIdentity);
  }

  // Whether all elements of its result are elements of its first input.
  bool only_moves(const onnx::NodeProto& node) const {
    const OpSpec* row = row_of(node, opsets_);
    if (row == nullptr || node.input_size() == 0) return false;
    const split::WorkKind kind = row->work.kind;
    return kind == split::WorkKind::view || kind == split::WorkKind::reorder ||
           kind == split::WorkKind::repeat;
  }

  // The table behind a value, through operators that only move elements.
  Names table_of(std::string name) const {
    for (std::size_t steps = 0; steps <= producers_.size(); ++steps) {
      const auto found = producers_.find(name);
      if (found == producers_.end()) return {};
      const auto [node, k] = found->second;
      if (!only_moves(*node)) return strings_of(*node, k);
      name = node->input(0);
    }
    return {};
  }

  // Returns the table of a value.
  Names declare(onnx::ValueInfoProto& value) const {
    Names names = table_of(value.name());
    const bool is_string =
        value.type().has_tensor_type() && value.type().tensor_type().elem_type() == onnx::TensorProto::STRING;
    if (!names.empty() && is_string)
      value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
    return names;
  }

  void name_classes(onnx::ValueInfoProto& output) {
    Names names = declare(output);
    if (names.empty()) return;
    tell(fmt::format("output '{}' has positions in {} instead of strings", output.name(), shown(names)));
    model_.classes[output.name()] = std::move(names);
  }

  void tell(const std::string& text) const {
    if (note_) note_(text);
  }

  Model& model_;
  onnx::GraphProto& graph_;
  const std::function<void(const std::string& text)>& note_;
  Opsets opsets_;
  std::unordered_map<std::string, std::pair<const onnx::NodeProto*, int>> producers_;
};

}  // namespace

void leave_out_maps_and_strings(Model& model, const std::function<void(const std::string& text)>& note) {
  Outputs(model, note).run();
}

}  // namespace braid::frontend
