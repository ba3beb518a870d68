#include "frontend/match_attention.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <optional>

namespace braid::frontend {
namespace {

class Finder {
 public:
  Finder(const onnx::GraphProto& graph, const std::vector<bool>& live,
         const std::unordered_map<std::string, int>& uses, int version)
      : graph_(graph), uses_(uses), version_(version) {
    for (int k = 0; k < graph.node_size(); ++k) {
      if (!live[static_cast<std::size_t>(k)]) continue;
      for (const std::string& output : graph.node(k).output()) {
        if (!output.empty()) producer_[output] = k;
      }
    }
  }

  std::optional<AttentionPattern> ending_at(int result) const {
    if (!is(result, "MatMul")) return std::nullopt;
    AttentionPattern p;
    p.result = result;
    if (!to_softmax(graph_.node(result).input(0), p)) return std::nullopt;
    std::reverse(p.weights.begin(), p.weights.end());
    if (!to_product(graph_.node(p.softmax).input(0), p, kMostSteps)) return std::nullopt;
    std::reverse(p.scores.begin(), p.scores.end());
    return p;
  }

 private:
  static constexpr int kMostSteps = 16;

  bool is(int k, const char* type) const {
    const onnx::NodeProto& node = graph_.node(k);
    return node.op_type() == type && (node.domain().empty() || node.domain() == "ai.onnx");
  }
  int producer(const std::string& value) const {
    const auto found = producer_.find(value);
    return found == producer_.end() ? -1 : found->second;
  }
  int readers(const std::string& value) const {
    const auto found = uses_.find(value);
    return found == uses_.end() ? 0 : found->second;
  }
  // The node whose only result in use is this value, which has so many readers.
  int sole_producer(const std::string& value, int count = 1) const {
    const int k = producer(value);
    if (k < 0 || readers(value) != count || graph_.node(k).output(0) != value) return -1;
    for (int o = 1; o < graph_.node(k).output_size(); ++o) {
      if (readers(graph_.node(k).output(o)) > 0) return -1;
    }
    return k;
  }

  bool end_at_softmax(int k, AttentionPattern& p) const {
    if (!is(k, "Softmax")) return false;
    p.softmax = k;
    p.axis = version_ >= 13 ? -1 : 1;
    for (const onnx::AttributeProto& a : graph_.node(k).attribute()) {
      if (a.name() == "axis") p.axis = a.i();
    }
    return true;
  }

  bool to_softmax(const std::string& value, AttentionPattern& p) const {
    std::string at = value;
    for (int steps = 0; steps < kMostSteps; ++steps) {
      const int k = sole_producer(at);
      if (k < 0) return false;
      if (end_at_softmax(k, p)) return true;
      int input = 0;
      if (is(k, "Where")) {
        input = guarded_input(k, p);
        if (input < 0) return false;
        if (!p.guards.empty()) {  // the guard reads the softmax too
          p.weights.push_back({k, input});
          return end_at_softmax(producer(graph_.node(k).input(input)), p);
        }
      } else if (!is(k, "Identity") && !is(k, "Cast") &&
                 !(is(k, "Dropout") && graph_.node(k).input_size() < 3)) {
        return false;
      }
      p.weights.push_back({k, input});
      at = graph_.node(k).input(input);
    }
    return false;
  }

  // Where(IsNaN(w), 0, w), or Where(rows, 0, w) and Where(rows, w, 0): the input that is w; -1: neither.
  int guarded_input(int k, AttentionPattern& p) const {
    const onnx::NodeProto& node = graph_.node(k);
    const int condition = producer(node.input(0));
    if (condition >= 0 && is(condition, "IsNaN") && readers(node.input(0)) == 1 &&
        graph_.node(condition).input(0) == node.input(2)) {
      if (sole_producer(node.input(2), 2) < 0) return -1;
      p.guards.push_back(condition);
      return 2;
    }
    for (int input : {2, 1}) {
      const int from = sole_producer(node.input(input));
      if (from >= 0 && (is(from, "Softmax") || is(from, "Cast") || is(from, "Identity"))) return input;
    }
    return -1;
  }

  // Follows the edges from the input of the softmax up to the product. Adds the steps on the way, nearest to
  // the softmax first.
  bool to_product(const std::string& value, AttentionPattern& p, int steps) const {
    const int k = sole_producer(value);
    if (k < 0 || steps == 0) return false;
    if (is(k, "MatMul")) {
      p.product = k;
      return true;
    }
    std::vector<int> inputs;
    if (is(k, "Identity") || is(k, "Cast") || is(k, "Div") || is(k, "Tanh")) inputs = {0};
    if (is(k, "Mul") || is(k, "Add")) inputs = {0, 1};
    if (is(k, "Where")) inputs = {1, 2};
    for (int input : inputs) {
      const std::size_t before = p.scores.size();
      p.scores.push_back({k, input});
      if (to_product(graph_.node(k).input(input), p, steps - 1)) return true;
      p.scores.resize(before);
    }
    return false;
  }

  const onnx::GraphProto& graph_;
  const std::unordered_map<std::string, int>& uses_;
  int version_;
  std::unordered_map<std::string, int> producer_;
};

}  // namespace

std::vector<int> AttentionPattern::inner() const {
  std::vector<int> all = guards;
  all.push_back(product);
  all.push_back(softmax);
  for (const auto* steps : {&scores, &weights}) {
    for (const PatternStep& step : *steps) all.push_back(step.node);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::map<int, AttentionPattern> find_attention(const onnx::GraphProto& graph, const std::vector<bool>& live,
                                               const std::unordered_map<std::string, int>& uses,
                                               int version) {
  std::map<int, AttentionPattern> found;
  const Finder finder(graph, live, uses, version);
  for (int k = 0; k < graph.node_size(); ++k) {
    if (!live[static_cast<std::size_t>(k)]) continue;
    // The result of one may not be the scores of the next one, too.
    if (std::optional<AttentionPattern> pattern = finder.ending_at(k);
        pattern && !found.contains(pattern->product))
      found.emplace(k, std::move(*pattern));
  }
  return found;
}

}  // namespace braid::frontend
