#include "frontend/check_structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontend/functions.h"
#include "frontend/op_registry.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::user_error;

Opsets check_versions(const Model& model) {
  const ir::Location at{.file = model.path};
  const std::int64_t newest_ir = onnx::Version::IR_VERSION;
  if (!model.proto.has_ir_version() || model.proto.ir_version() < 3 || model.proto.ir_version() > newest_ir) {
    user_error(errors::kIrVersion, at,
               fmt::format("the model has IR version {}; versions 3 to {} are supported",
                           model.proto.ir_version(), newest_ir),
               "export the model with another version of ONNX");
  }
  Opsets opsets;
  for (const onnx::OperatorSetIdProto& import : model.proto.opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (import.version() < 1 || (domain.empty() && import.version() > kNewestOpset)) {
      user_error(
          errors::kOpset, at,
          fmt::format("the model imports version {} of operator set '{}'; versions 1 to {} are supported",
                      import.version(), domain.empty() ? "ai.onnx" : domain, kNewestOpset),
          "export the model for another operator set");
    }
    opsets[domain] = static_cast<int>(import.version());
  }
  if (opsets.empty())
    user_error(errors::kOpset, at, "the model imports no operator set", "export the model again");
  return opsets;
}

namespace {

enum class Mark : std::uint8_t { none, open, done };

class StructureCheck {
 public:
  StructureCheck(const Model& model, const Opsets& opsets)
      : model_(model), graph_(model.proto.graph()), opsets_(opsets) {}

  void run() {
    define_inputs();
    define_nodes();
    check_edges();
    check_outputs();
  }

 private:
  static constexpr int kInput = -1;  // defined before any node

  [[noreturn]] void duplicate(const ir::Location& at, const std::string& name) {
    user_error(errors::kDuplicateName, at, fmt::format("the value '{}' is defined twice", name),
               "every value needs a name of its own");
  }

  void define_inputs() {
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (!producer_.emplace(input.name(), kInput).second) duplicate({.file = model_.path}, input.name());
    }
    for (const auto& [name, tensor] : model_.initializers) producer_.emplace(name, kInput);
    for (const auto& [name, error] : model_.refused) producer_.emplace(name, kInput);
  }

  void define_nodes() {
    for (int k = 0; k < graph_.node_size(); ++k) {
      const onnx::NodeProto& node = graph_.node(k);
      for (const std::string& output : node.output()) {
        if (!output.empty() && !producer_.emplace(output, k).second)
          duplicate(location_of(model_.path, node), output);
      }
      const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
      if (!opsets_.count(domain)) {
        user_error(
            errors::kUnknownDomain, location_of(model_.path, node),
            fmt::format("the model does not import the domain '{}'", domain.empty() ? "ai.onnx" : domain),
            "every domain used by a node needs an entry in opset_import");
      }
    }
  }

  void check_edges() {
    std::string unsorted_value;
    int unsorted = -1;
    for (int k = 0; k < graph_.node_size(); ++k) {
      for (const std::string& input : graph_.node(k).input()) {
        if (input.empty()) continue;
        const auto found = producer_.find(input);
        if (found == producer_.end()) {
          user_error(errors::kUndefinedValue, location_of(model_.path, graph_.node(k)),
                     fmt::format("the input '{}' is not defined", input),
                     "it is not a graph input, an initializer or the output of a node");
        }
        if (found->second >= k && unsorted < 0) {
          unsorted = k;
          unsorted_value = input;
        }
      }
    }
    if (unsorted < 0) return;
    find_cycle();
    user_error(errors::kNotSorted, location_of(model_.path, graph_.node(unsorted)),
               fmt::format("the input '{}' is computed by a later node", unsorted_value),
               "sort the nodes topologically");
  }

  // Depth-first search without recursion: graphs are deep.
  void find_cycle() {
    std::vector<Mark> marks(static_cast<std::size_t>(graph_.node_size()), Mark::none);
    for (int root = 0; root < graph_.node_size(); ++root) {
      if (marks[static_cast<std::size_t>(root)] != Mark::none) continue;
      std::vector<std::pair<int, int>> path{{root, 0}};  // node, next input
      marks[static_cast<std::size_t>(root)] = Mark::open;
      while (!path.empty()) {
        auto& [node, next] = path.back();
        if (next == graph_.node(node).input_size()) {
          marks[static_cast<std::size_t>(node)] = Mark::done;
          path.pop_back();
          continue;
        }
        const auto found = producer_.find(graph_.node(node).input(next++));
        if (found == producer_.end() || found->second == kInput) continue;
        Mark& mark = marks[static_cast<std::size_t>(found->second)];
        if (mark == Mark::open) report_cycle(path, found->second);
        if (mark == Mark::none) {
          mark = Mark::open;
          path.emplace_back(found->second, 0);
        }
      }
    }
  }

  [[noreturn]] void report_cycle(const std::vector<std::pair<int, int>>& path, int node) {
    std::vector<std::string> names;
    const auto first = std::find_if(path.begin(), path.end(), [&](const auto& p) { return p.first == node; });
    for (auto it = path.end(); it != first;) names.push_back(name_of(graph_.node((--it)->first)));
    user_error(errors::kCyclicGraph, location_of(model_.path, graph_.node(node)),
               fmt::format("the graph has a cycle: {}", fmt::join(names, " -> ")),
               "no node may depend on its own output");
  }

  void check_outputs() {
    std::unordered_set<std::string> seen;
    for (const onnx::ValueInfoProto& output : graph_.output()) {
      if (!seen.insert(output.name()).second)
        user_error(errors::kDuplicateName, {.file = model_.path},
                   fmt::format("the graph output '{}' is listed twice", output.name()),
                   "list it once, or let an Identity give its value a second name");
      if (!producer_.count(output.name())) {
        user_error(errors::kUndefinedValue, {.file = model_.path},
                   fmt::format("the graph output '{}' is not defined", output.name()),
                   "make a node compute it");
      }
    }
  }

  const Model& model_;
  const onnx::GraphProto& graph_;
  const Opsets& opsets_;
  std::unordered_map<std::string, int> producer_;
};

}  // namespace

void check_structure(const Model& model, const Opsets& opsets) {
  StructureCheck(model, opsets).run();
  check_functions(model);
}

namespace {

std::string text_of(const onnx::TypeProto_Tensor& type) {
  std::vector<std::string> sizes;
  for (const auto& dim : type.shape().dim()) {
    sizes.push_back(dim.has_dim_value()       ? std::to_string(dim.dim_value())
                    : dim.dim_param().empty() ? "?"
                                              : dim.dim_param());
  }
  const std::string name = onnx_type_name(type.elem_type());
  return type.has_shape() ? fmt::format("{}[{}]", name, fmt::join(sizes, ", ")) : name;
}

bool same_shape(const onnx::TypeProto_Tensor& a, const onnx::TypeProto_Tensor& b) {
  if (!a.has_shape() || !b.has_shape()) return true;
  if (a.shape().dim_size() != b.shape().dim_size()) return false;
  for (int k = 0; k < a.shape().dim_size(); ++k) {
    const auto &x = a.shape().dim(k), &y = b.shape().dim(k);
    if (x.has_dim_value() && y.has_dim_value() && x.dim_value() != y.dim_value()) return false;
  }
  return true;
}

}  // namespace

void check_declarations(const Model& model, const std::function<void(const std::string& text)>& note) {
  const onnx::GraphProto& graph = model.proto.graph();
  std::unordered_map<std::string, onnx::TypeProto_Tensor> known;
  const auto meet = [&](const std::string& name, const onnx::TypeProto_Tensor& type, bool refuse) {
    const auto found = known.find(name);
    if (found == known.end()) return;  // nodes compute it
    const onnx::TypeProto_Tensor& first = found->second;
    const bool typed = first.elem_type() == type.elem_type();
    if (typed && same_shape(first, type)) return;
    const std::string text =
        fmt::format("'{}' is declared twice, as {} and as {}", name, text_of(first), text_of(type));
    if (refuse)
      user_error(typed ? errors::kShapeMismatch : errors::kTypeMismatch, {.file = model.path}, text,
                 "declare a graph input that is also an initializer with one type");
    if (note) note(text + "; it is " + text_of(first));
  };
  for (const auto& [name, tensor] : model.initializers) {
    onnx::TypeProto_Tensor type;
    type.set_elem_type(onnx_type_of(tensor.dtype));
    type.mutable_shape();
    for (std::int64_t size : tensor.sizes) type.mutable_shape()->add_dim()->set_dim_value(size);
    known.emplace(name, type);
  }
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const onnx::ValueInfoProto& value : *list) {
      if (!value.type().has_tensor_type() || value.type().tensor_type().elem_type() == 0) continue;
      const bool is_input = list == &graph.input();
      meet(value.name(), value.type().tensor_type(), is_input);
      if (is_input) known.emplace(value.name(), value.type().tensor_type());
    }
  }
}

}  // namespace braid::frontend
