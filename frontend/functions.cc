#include "frontend/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::user_error;

namespace {

std::string key(const std::string& domain, const std::string& name, const std::string& overload) {
  std::string text = (domain == "ai.onnx" ? "" : domain) + ":" + name;
  return overload.empty() ? text : text + ":" + overload;
}

// Limits of expanded functions. Each node has a cost beside its bytes, so that many small nodes count too.
constexpr std::int64_t kNodeCost = 256;
constexpr std::int64_t kMaxCost = std::int64_t{12} << 20;  // some 40,000 nodes: hundreds of layers
constexpr std::int64_t kMaxGrowth = 8;  // relative to the model as written, if that allows more
constexpr int kMaxLevels = 64;

struct Size {
  std::int64_t cost = 0, nodes = 0;  // saturate at kFull
  int levels = 0;

  static constexpr std::int64_t kFull = std::int64_t{1} << 61;  // two of them can be added
  void add(const Size& callee) {
    cost = std::min(kFull, cost + callee.cost);
    nodes = std::min(kFull, nodes + callee.nodes);
    levels = std::max(levels, callee.levels + 1);
  }
};

class FunctionCheck {
 public:
  explicit FunctionCheck(const Model& model) : model_(model) {}

  void run() {
    for (const onnx::FunctionProto& f : model_.proto.functions()) {
      if (!functions_.emplace(function_key(f), &f).second) {
        user_error(errors::kDuplicateName, {.file = model_.path},
                   fmt::format("the function '{}' is defined twice", f.name()), "rename one of them");
      }
    }
    Size written;
    for (const onnx::FunctionProto& f : model_.proto.functions()) written.cost += own_cost(f.node());
    written.cost += own_cost(model_.proto.graph().node());
    order_by_calls();
    for (const onnx::FunctionProto* f : callees_first_) sizes_[function_key(*f)] = expanded(f->node());
    const Size all = expanded(model_.proto.graph().node());
    const std::int64_t most = std::max(kMaxCost, kMaxGrowth * written.cost);
    if (all.cost <= most && all.levels <= kMaxLevels) return;
    const onnx::NodeProto& call = largest_call();
    const std::string what =
        all.levels > kMaxLevels
            ? fmt::format("functions call each other {} levels deep; at most {} are supported", all.levels,
                          kMaxLevels)
            : fmt::format("with all function calls inlined the model has {}{} nodes",
                          all.nodes == Size::kFull ? "more than " : "", all.nodes);
    user_error(errors::kFunctionExpansion, location_of(model_.path, call), what,
               "call functions less often, or use smaller functions");
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  static std::int64_t own_cost(const Nodes& nodes) {
    std::int64_t cost = 0;
    for (const onnx::NodeProto& node : nodes)
      cost += kNodeCost + static_cast<std::int64_t>(node.ByteSizeLong());
    return cost;
  }

  // Visits every node, also those of branches, whose depth the parser of the file has bounded.
  template <class Visit>
  static void visit(const Nodes& nodes, const Visit& f) {
    for (const onnx::NodeProto& node : nodes) {
      f(node);
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) visit(attribute.g().node(), f);
        for (const onnx::GraphProto& graph : attribute.graphs()) visit(graph.node(), f);
      }
    }
  }

  // A depth-first search without recursion: chains of calls are as long as the file.
  void order_by_calls() {
    enum class Mark : std::uint8_t { none, open, done };
    std::unordered_map<std::string, Mark> marks;
    struct Open {
      const onnx::FunctionProto* function;
      std::vector<const onnx::NodeProto*> calls;
      std::size_t next = 0;
    };
    const auto open = [&](const onnx::FunctionProto& f) {
      marks[function_key(f)] = Mark::open;
      Open o{&f, {}};
      visit(f.node(), [&](const onnx::NodeProto& node) {
        if (functions_.count(function_key(node))) o.calls.push_back(&node);
      });
      return o;
    };
    for (const onnx::FunctionProto& root : model_.proto.functions()) {
      if (marks[function_key(root)] != Mark::none) continue;
      std::vector<Open> path;
      path.push_back(open(root));
      while (!path.empty()) {
        Open& top = path.back();
        if (top.next == top.calls.size()) {
          marks[function_key(*top.function)] = Mark::done;
          callees_first_.push_back(top.function);
          path.pop_back();
          continue;
        }
        const onnx::NodeProto& call = *top.calls[top.next++];
        const std::string callee = function_key(call);
        if (marks[callee] == Mark::open) {
          user_error(errors::kRecursiveFunction, location_of(model_.path, call),
                     fmt::format("the function '{}' calls itself", call.op_type()), "remove the recursion");
        }
        if (marks[callee] == Mark::none) path.push_back(open(*functions_.at(callee)));
      }
    }
  }

  Size expanded(const Nodes& nodes) const {
    Size size;
    size.cost = own_cost(nodes);
    visit(nodes, [&](const onnx::NodeProto& node) {
      ++size.nodes;
      if (const auto callee = sizes_.find(function_key(node)); callee != sizes_.end())
        size.add(callee->second);
    });
    return size;
  }

  const onnx::NodeProto& largest_call() const {
    const onnx::NodeProto* largest = nullptr;
    std::pair<std::int64_t, int> most{-1, 0};
    visit(model_.proto.graph().node(), [&](const onnx::NodeProto& node) {
      const auto callee = sizes_.find(function_key(node));
      if (callee == sizes_.end()) return;
      const std::pair<std::int64_t, int> size{callee->second.cost, callee->second.levels};
      if (size > most) {
        most = size;
        largest = &node;
      }
    });
    ir::internal_check(largest != nullptr, "a model without calls grows by expanding them");
    return *largest;
  }

  const Model& model_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> callees_first_;
  std::unordered_map<std::string, Size> sizes_;  // of functions, expanded
};

}  // namespace

std::string function_key(const onnx::FunctionProto& f) { return key(f.domain(), f.name(), f.overload()); }
std::string function_key(const onnx::NodeProto& call) {
  return key(call.domain(), call.op_type(), call.overload());
}

void check_functions(const Model& model) { FunctionCheck(model).run(); }

}  // namespace braid::frontend
