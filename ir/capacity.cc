#include "ir/capacity.h"

#include <algorithm>

namespace braid::ir {
namespace {

// The inputs and outputs that lie in the same memory.
std::vector<BufferId> names_of(const Graph& graph, StorageId root) {
  std::vector<BufferId> names;
  const auto add = [&](BufferId b) {
    if (root_storage(graph, b) == root) names.push_back(b);
  };
  for (const GraphInput& input : graph.inputs) add(input.buffer);
  for (const GraphOutput& output : graph.outputs) add(output.buffer);
  return names;
}

}  // namespace

std::vector<Expr> capacity_strides(std::span<const std::int64_t> capacities) {
  std::vector<Expr> sizes;
  for (std::int64_t capacity : capacities) sizes.emplace_back(std::max<std::int64_t>(capacity, 1));
  return contiguous_strides(sizes);
}

bool has_capacity_strides(std::span<const Expr> sizes, std::span<const Expr> strides) {
  if (sizes.size() != strides.size()) return false;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!strides[k].is_constant() || strides[k].constant() < 1) return false;
    if (k + 1 == sizes.size()) return strides[k].is_constant(1);
    if (!strides[k + 1].is_constant() || strides[k + 1].constant() < 1 ||
        strides[k].constant() % strides[k + 1].constant() != 0 ||
        bounds(sizes[k + 1]).max > strides[k].constant() / strides[k + 1].constant())
      return false;
  }
  return true;
}

std::optional<std::vector<std::int64_t>> capacities(const Graph& graph, BufferId buffer) {
  const std::vector<Expr>& sizes = graph[buffer].sizes;
  const std::vector<Expr> strides = strides_of(graph, buffer);
  if (sizes.empty() || !has_capacity_strides(sizes, strides)) return std::nullopt;
  const std::vector<BufferId> names = names_of(graph, root_storage(graph, buffer));
  const auto same = [&](BufferId b) { return graph[b].sizes == sizes; };
  if (is_contiguous(sizes, strides) && std::all_of(names.begin(), names.end(), same)) return std::nullopt;
  std::vector<std::int64_t> out(sizes.size());
  for (std::size_t k = 1; k < sizes.size(); ++k) out[k] = strides[k - 1].constant() / strides[k].constant();
  out[0] = bounds(sizes[0]).max;
  for (BufferId b : names) {
    if (!graph[b].sizes.empty()) out[0] = std::max(out[0], bounds(graph[b].sizes[0]).max);
  }
  return out;
}

std::int64_t max_bytes(const Graph& graph, BufferId buffer) {
  std::int64_t bytes = size_of(graph[buffer].dtype);
  const std::optional<std::vector<std::int64_t>> room = capacities(graph, buffer);
  if (!room) return bytes * bounds(numel(graph[buffer].sizes)).max;
  for (std::int64_t capacity : *room) bytes *= capacity;
  return bytes;
}

}  // namespace braid::ir
