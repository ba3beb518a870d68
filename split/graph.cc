#include "split/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace braid::split {
namespace {

// Texts of bytes, by which things are compared.
template <class... Values>
void add(std::string& text, const Values&... values) {
  static_assert((std::is_scalar_v<Values> && ...));
  (text.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
}
void add_size(std::string& text, const ir::Expr& e) {
  add(text, e.node(), e.is_constant() ? e.constant() : 0);
}

std::string text_of(const GraphValue& value) {
  std::string text;
  add(text, value.dtype, value.pinned, value.constant.has_value(), value.elements.has_value(),
      value.graph_input, value.readers.empty(), value.sizes.size());
  for (const ir::Expr& size : value.sizes) add_size(text, size);
  if (value.elements) {
    add(text, value.elements->values.size());
    for (const ir::Expr& element : value.elements->values) add_size(text, element);
  }
  return text;
}

std::string text_of(const Graph& graph, const GraphNode& node) {
  std::string text = node.op + '\0' + node.domain + '\0';
  const std::vector<std::string> attributes = node.operation->attributes();
  add(text, node.version, attributes.size());
  for (const std::string& attribute : attributes) {
    add(text, attribute.size());
    text += attribute;
  }
  for (const std::vector<ValueId>* list : {&node.inputs, &node.outputs}) {
    add(text, list->size());
    for (const ValueId v : *list) {
      // Which of the list it is first.
      add(text, v.valid() ? std::ranges::find(*list, v) - list->begin() : -1);
      if (v.valid()) add(text, graph.values[v].kind.index);
    }
  }
  return text;
}

}  // namespace

void find_kinds(Graph& graph) {
  for (GraphValue& value : graph.values) value.moved_constant = value.constant.has_value();
  for (const GraphNode& node : graph.nodes) {
    const auto is_known = [&](ValueId v) { return !v.valid() || graph.values[v].moved_constant; };
    if ((node.work.kind != WorkKind::view && !is_moved(node.work.kind)) ||
        !std::ranges::all_of(node.inputs, is_known))
      continue;
    for (const ValueId v : node.outputs) {
      // A value without a producer here is an input of a stage.
      if (v.valid() && graph.values[v].producer.valid()) graph.values[v].moved_constant = true;
    }
  }
  std::unordered_map<std::string, ValueKindId> values;
  for (GraphValue& value : graph.values)
    value.kind = values.try_emplace(text_of(value), ir::id_at<ValueKindId>(values.size())).first->second;
  graph.value_kinds = first_ids<ValueKindId>(count_of(values));
  std::unordered_map<std::string, NodeKindId> nodes;
  for (GraphNode& node : graph.nodes)
    node.kind = nodes.try_emplace(text_of(graph, node), ir::id_at<NodeKindId>(nodes.size())).first->second;
}

ValueId Graph::find(const std::string& name) const {
  const auto found = index.find(name);
  return found == index.end() ? ValueId{} : found->second;
}

std::optional<std::int64_t> static_size(const ir::Expr& size) {
  if (!size.is_constant()) return std::nullopt;
  return size.constant();
}

std::string fault(const GraphValue& value, const Spec& spec, int ranks) {
  if (spec.is_replicated()) return {};
  if (value.pinned)
    return "it decides sizes, is no tensor, or is read by the body of a branch or loop, and so must be R";
  if (spec.is_pending()) {
    if (value.dtype == ir::DType::boolean || ir::is_storage(value.dtype))
      return "its element type is not reduced";
    return {};
  }
  if (spec.dim >= value.rank()) return fmt::format("it has {} dimensions", value.rank());
  const auto size = static_size(value.sizes[spec.dim]);
  if (!size) return fmt::format("the size of dimension {} is known only at run time", spec.dim);
  if (*size == 0) return fmt::format("dimension {} has no elements", spec.dim);
  std::int64_t sum = 0;
  for (const std::int64_t block : spec.blocks) {
    sum += block;
    if (block % ranks != 0) return fmt::format("a block of {} cannot be cut into {} parts", block, ranks);
  }
  if (!spec.blocks.empty() && sum != *size)
    return fmt::format("the blocks add up to {}, but dimension {} has size {}", sum, spec.dim, *size);
  if (*size % ranks != 0 && !(spec.blocks.empty() && can_pad(*size, ranks)))
    return fmt::format("dimension {} of size {} cannot be cut into {} parts", spec.dim, *size, ranks);
  return {};
}

}  // namespace braid::split
