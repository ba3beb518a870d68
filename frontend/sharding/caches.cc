#include "frontend/sharding/caches.h"

#include <algorithm>
#include <set>

#include "frontend/schemas.h"
#include "frontend/sharding/work.h"

namespace braid::frontend::sharding {
namespace {

// Which inputs of an operator go on in one of its outputs; output -1: its only one, input -1: each of its inputs.
struct Carried {
  const char* domain;
  const char* op;
  int output;
  int input;
};
constexpr Carried kCarried[] = {
    {"", "Identity", 0, 0},
    {"", "Concat", 0, -1},
    {"", "TensorScatter", 0, 0},
    {"", "ScatterND", 0, 0},
    {"", "ScatterElements", 0, 0},
    {"", "Where", 0, 1},
    {"", "Where", 0, 2},
    {"", "Attention", 1, 4},
    {"", "Attention", 2, 5},
    {kMicrosoftDomain, "Attention", 1, 4},
    {kMicrosoftDomain, "GroupQueryAttention", 1, 3},
    {kMicrosoftDomain, "GroupQueryAttention", 2, 4},
    {kMicrosoftDomain, "MultiHeadAttention", 1, 6},
    {kMicrosoftDomain, "MultiHeadAttention", 2, 7},
};

// The graph input that value `v` carries on; -1 if there is none.
int carried_input(const Graph& graph, int v, int steps) {
  const GraphValue& value = graph.values[static_cast<std::size_t>(v)];
  if (value.graph_input) return v;
  if (value.producer < 0 || steps == 0) return -1;
  const GraphNode& node = graph.nodes[static_cast<std::size_t>(value.producer)];
  for (const Carried& c : kCarried) {
    if (node.domain != c.domain || node.proto->op_type() != c.op) continue;
    if (c.output >= static_cast<int>(node.outputs.size()) ||
        node.outputs[static_cast<std::size_t>(c.output)] != v)
      continue;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if ((c.input >= 0 && static_cast<int>(k) != c.input) || node.inputs[k] < 0) continue;
      const int found = carried_input(graph, node.inputs[k], steps - 1);
      if (found >= 0) return found;
    }
  }
  return -1;
}

const GraphNode* producer_of(const Graph& graph, int v) {
  const int producer = v < 0 ? -1 : graph.values[static_cast<std::size_t>(v)].producer;
  return producer < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(producer)];
}

// The operands of a product of two tensors that are computed: not weights.
std::vector<int> factors(const Graph& graph, const GraphNode& node) {
  if (kind_of(node) != WorkKind::product || has_weights(graph, node) || node.inputs.size() < 2) return {};
  return {node.inputs[0], node.inputs[1]};
}

bool is_softmax(const GraphNode& node) { return node.proto->op_type() == "Softmax"; }

// What may stand between a product and Softmax: scales, masks, casts, and other orders of the same elements.
bool passes_on(const GraphNode& node) {
  const WorkKind kind = kind_of(node);
  return kind == WorkKind::view || kind == WorkKind::pointwise || node.proto->op_type() == "Transpose" ||
         node.proto->op_type() == "Expand";
}

constexpr int kMostSteps = 8;

bool becomes_softmax(const Graph& graph, int v, int steps = kMostSteps) {
  return v >= 0 && steps > 0 &&
         std::ranges::any_of(graph.values[static_cast<std::size_t>(v)].readers, [&](const GraphUse& use) {
           if (use.node < 0) return false;
           const GraphNode& node = graph.nodes[static_cast<std::size_t>(use.node)];
           if (is_softmax(node)) return true;
           return passes_on(node) && std::ranges::any_of(node.outputs, [&](int next) {
                    return becomes_softmax(graph, next, steps - 1);
                  });
         });
}

bool comes_from_softmax(const Graph& graph, int v, int steps = kMostSteps) {
  const GraphNode* node = producer_of(graph, v);
  if (node == nullptr || steps == 0) return false;
  if (is_softmax(*node)) return true;
  return passes_on(*node) && std::ranges::any_of(node->inputs, [&](int next) {
           return comes_from_softmax(graph, next, steps - 1);
         });
}

// Whether attention reads value `v`, or what passes it on, as its keys or values.
bool is_attended(const Graph& graph, int v, int steps = kMostSteps) {
  if (v < 0 || steps == 0) return false;
  return std::ranges::any_of(graph.values[static_cast<std::size_t>(v)].readers, [&](const GraphUse& use) {
    if (use.node < 0) return false;
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(use.node)];
    if (kind_of(node) == WorkKind::attention) return use.input == 1 || use.input == 2;
    const std::vector<int> of = factors(graph, node);
    if (of.empty())
      return passes_on(node) &&
             std::ranges::any_of(node.outputs, [&](int next) { return is_attended(graph, next, steps - 1); });
    if (use.input > 1) return false;
    if (use.input == 1 && becomes_softmax(graph, node.outputs.front())) return true;
    return comes_from_softmax(graph, of[static_cast<std::size_t>(1 - use.input)]);
  });
}

// Whether value `v`, or what has the same elements, is keys or values of attention.
bool is_keys_or_values(const Graph& graph, int v, int steps = kMostSteps) {
  if (is_attended(graph, v)) return true;
  const GraphNode* node = producer_of(graph, v);
  if (node == nullptr || steps == 0) return false;
  if (kind_of(*node) == WorkKind::attention) {
    return std::ranges::any_of(kCarried, [&](const Carried& c) {
      return node->domain == c.domain && node->proto->op_type() == c.op &&
             c.output < static_cast<int>(node->outputs.size()) &&
             node->outputs[static_cast<std::size_t>(c.output)] == v;
    });
  }
  const bool same_elements = kind_of(*node) == WorkKind::view || node->proto->op_type() == "Transpose";
  return same_elements && !node->inputs.empty() && is_keys_or_values(graph, node->inputs[0], steps - 1);
}

}  // namespace

std::vector<Cache> caches_of(const Graph& graph) {
  constexpr int kLeastRank = 3;
  std::vector<Cache> caches;
  std::set<int> taken, returned;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    const int v = graph.outputs[k];
    const GraphValue& output = graph.values[static_cast<std::size_t>(v)];
    if (output.rank() < kLeastRank || output.producer < 0 || output.pinned) continue;
    const int input = carried_input(graph, v, kMostSteps);
    if (input < 0) {
      if (is_keys_or_values(graph, v) && returned.insert(v).second)
        caches.push_back({-1, static_cast<int>(k)});
      continue;
    }
    const GraphValue& past = graph.values[static_cast<std::size_t>(input)];
    if (past.dtype != output.dtype || past.rank() != output.rank() || past.pinned) continue;
    if (taken.insert(input).second) caches.push_back({input, static_cast<int>(k)});
  }
  return caches;
}

}  // namespace braid::frontend::sharding
