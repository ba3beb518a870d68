#include "frontend/sharding/caches.h"

#include <set>

#include "frontend/schemas.h"

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

}  // namespace

std::vector<CachePair> cache_pairs(const Graph& graph) {
  constexpr int kMostSteps = 8, kLeastRank = 3;
  std::vector<CachePair> pairs;
  std::set<int> taken;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    const int v = graph.outputs[k];
    const GraphValue& output = graph.values[static_cast<std::size_t>(v)];
    if (output.rank() < kLeastRank || output.producer < 0) continue;
    const int input = carried_input(graph, v, kMostSteps);
    if (input < 0) continue;
    const GraphValue& past = graph.values[static_cast<std::size_t>(input)];
    if (past.dtype != output.dtype || past.rank() != output.rank() || past.pinned || output.pinned) continue;
    if (taken.insert(input).second) pairs.push_back({input, static_cast<int>(k)});
  }
  return pairs;
}

}  // namespace braid::frontend::sharding
