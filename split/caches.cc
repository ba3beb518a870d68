#include "split/caches.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "split/work.h"

namespace braid::split {
namespace {

// The graph input that value `v` carries on; invalid if there is none. Each value is looked at once.
ValueId carried_input(const Graph& graph, ValueId v, int steps, std::set<ValueId>& seen) {
  const GraphValue& value = graph.values[v];
  if (value.graph_input) return v;
  if (!value.producer.valid() || steps == 0 || !seen.insert(v).second) return {};
  const GraphNode& node = graph.nodes[value.producer];
  for (const Carried& c : node.carried) {
    if (c.output >= count_of(node.outputs) || node.outputs[c.output] != v) continue;
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if ((c.input >= 0 && k != c.input) || !node.inputs[k].valid()) continue;
      const ValueId found = carried_input(graph, node.inputs[k], steps - 1, seen);
      if (found.valid()) return found;
    }
  }
  return {};
}

// The operands of a product of two tensors that are computed: not weights.
std::vector<ValueId> factors(const Graph& graph, const GraphNode& node) {
  const WorkFacts& work = node.work;
  if (work.kind != WorkKind::product || has_weights(graph, node)) return {};
  if (value_of(graph, node.inputs, work.a) == nullptr || value_of(graph, node.inputs, work.b) == nullptr)
    return {};
  return {node.inputs[work.a], node.inputs[work.b]};
}

bool is_softmax(const GraphNode& node) { return node.work.kind == WorkKind::softmax; }

// Passes all elements of its input on, perhaps in another order.
bool keeps_elements(const GraphNode& node) {
  return node.work.kind == WorkKind::view || node.work.kind == WorkKind::reorder;
}

// Whether it may stand between a product and Softmax: scales, masks, casts, and other orders of the same
// elements.
bool passes_on(const GraphNode& node) {
  return keeps_elements(node) || node.work.kind == WorkKind::pointwise || node.work.kind == WorkKind::repeat;
}

constexpr int kMostSteps = 8;

using Values = std::vector<ValueId>;

// Whether `holds` of `v`, or of a value to which at most kMostSteps of `next` lead. Each is looked at once.
bool holds_near(ValueId v, const std::function<bool(ValueId)>& holds,
                const std::function<Values(ValueId)>& next) {
  std::set<ValueId> seen = {v};
  Values now = {v};
  for (int step = 0; v.valid() && step <= kMostSteps && !now.empty(); ++step) {
    Values later;
    for (const ValueId value : now) {
      if (holds(value)) return true;
      for (const ValueId other : next(value))
        if (other.valid() && seen.insert(other).second) later.push_back(other);
    }
    now = std::move(later);
  }
  return false;
}

std::vector<std::pair<const GraphNode*, int>> readers_of(const Graph& graph, ValueId v) {
  std::vector<std::pair<const GraphNode*, int>> readers;
  for (const GraphUse& use : graph.values[v].readers)
    if (use.node.valid()) readers.emplace_back(&graph.nodes[use.node], use.input);
  return readers;
}

// The values that are computed from `v` by nodes that pass its elements on.
Values passed_on(const Graph& graph, ValueId v) {
  Values values;
  for (const auto& [node, input] : readers_of(graph, v))
    if (passes_on(*node)) values.insert(values.end(), node->outputs.begin(), node->outputs.end());
  return values;
}

bool becomes_softmax(const Graph& graph, ValueId v) {
  return holds_near(
      v,
      [&](ValueId value) {
        return std::ranges::any_of(readers_of(graph, value),
                                   [](const auto& reader) { return is_softmax(*reader.first); });
      },
      [&](ValueId value) { return passed_on(graph, value); });
}

bool comes_from_softmax(const Graph& graph, ValueId v) {
  return holds_near(
      v,
      [&](ValueId value) {
        const GraphNode* node = graph.producer_of(value);
        return node != nullptr && is_softmax(*node);
      },
      [&](ValueId value) {
        const GraphNode* node = graph.producer_of(value);
        return node != nullptr && passes_on(*node) ? node->inputs : Values();
      });
}

// Whether attention reads value `v`, or what passes it on, as its keys or values.
bool is_attended(const Graph& graph, ValueId v) {
  const auto reads = [&](const auto& reader) {
    const auto& [node, input] = reader;
    const WorkFacts& work = node->work;
    if (work.kind == WorkKind::attention) return input == 1 || input == 2;
    const std::vector<ValueId> of = factors(graph, *node);
    if (of.empty() || (input != work.a && input != work.b)) return false;
    if (input == work.b && becomes_softmax(graph, node->outputs.front())) return true;
    return comes_from_softmax(graph, of[input == work.a ? 1 : 0]);
  };
  return holds_near(
      v, [&](ValueId value) { return std::ranges::any_of(readers_of(graph, value), reads); },
      [&](ValueId value) { return passed_on(graph, value); });
}

// The value before `v` that has the same elements, perhaps in another order; none if there is none.
Values same_elements(const Graph& graph, ValueId v) {
  const GraphNode* node = graph.producer_of(v);
  if (node == nullptr || node->inputs.empty()) return {};
  return keeps_elements(*node) ? Values{node->inputs[0]} : Values();
}

// Whether attention returns `v` as its keys or values.
bool is_present(const Graph& graph, ValueId v) {
  const GraphNode* node = graph.producer_of(v);
  return node != nullptr && node->work.kind == WorkKind::attention &&
         std::ranges::any_of(node->carried, [&](const Carried& c) {
           return c.output < count_of(node->outputs) && node->outputs[c.output] == v;
         });
}

bool is_keys_or_values(const Graph& graph, ValueId v) {
  return holds_near(
      v, [&](ValueId value) { return is_attended(graph, value) || is_present(graph, value); },
      [&](ValueId value) { return same_elements(graph, value); });
}

}  // namespace

std::vector<Cache> caches_of(const Graph& graph) {
  constexpr int kLeastRank = 3;
  std::vector<Cache> caches;
  std::set<ValueId> taken, begun;
  for (int k = 0; k < count_of(graph.outputs); ++k) {
    const ValueId v = graph.outputs[k];
    const GraphValue& output = graph.values[v];
    if (output.rank() < kLeastRank || !output.producer.valid() || output.pinned) continue;
    std::set<ValueId> seen;
    const ValueId input = carried_input(graph, v, kMostSteps, seen);
    if (!input.valid()) {
      if (is_keys_or_values(graph, v) && begun.insert(v).second) caches.push_back({{}, k});
      continue;
    }
    const GraphValue& past = graph.values[input];
    // An input that is returned as it is stays whole.
    const bool returned =
        std::ranges::any_of(past.readers, [](const GraphUse& use) { return !use.node.valid(); });
    if (past.dtype != output.dtype || past.rank() != output.rank() || past.pinned || returned) continue;
    if (taken.insert(input).second) caches.push_back({input, k});
  }
  return caches;
}

}  // namespace braid::split
