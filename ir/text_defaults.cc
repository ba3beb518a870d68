#include "ir/text_defaults.h"

#include <algorithm>
#include <utility>

#include "ir/strided_view.h"

namespace braid::ir {

bool owns(const Buffer& buffer) {
  return std::holds_alternative<FlexibleLayout>(buffer.layout) ||
         std::holds_alternative<FixedLayout>(buffer.layout) ||
         std::holds_alternative<CommBufferLayout>(buffer.layout);
}

Expr default_bytes(const Buffer& buffer) {
  const Expr item = size_of(buffer.dtype);
  const std::vector<Expr>* strides = nullptr;
  if (const auto* f = std::get_if<FixedLayout>(&buffer.layout)) strides = &f->strides;
  if (const auto* c = std::get_if<CommBufferLayout>(&buffer.layout)) strides = &c->strides;
  const bool empty =
      std::any_of(buffer.sizes.begin(), buffer.sizes.end(), [](Expr s) { return s.is_constant(0); });
  if (empty || !strides || *strides == contiguous_strides(buffer.sizes)) return numel(buffer.sizes) * item;
  Expr last = 1;
  for (std::size_t k = 0; k < buffer.sizes.size(); ++k) last = last + (buffer.sizes[k] - 1) * (*strides)[k];
  return last * item;
}

std::optional<Expr> default_index(const Graph& graph, BufferId buffer, std::span<const Expr> sizes) {
  const Buffer& b = graph[buffer];
  if (!std::equal(sizes.begin(), sizes.end(), b.sizes.begin(), b.sizes.end())) return std::nullopt;
  return strided_index(*graph.pool, sizes, strides_of(graph, buffer));
}

std::optional<TensorRef> transposed(TensorRef ref) {
  const std::size_t rank = ref.sizes.size();
  if (rank < 2 || ref.strides.size() != rank) return std::nullopt;
  std::swap(ref.sizes[rank - 2], ref.sizes[rank - 1]);
  std::swap(ref.strides[rank - 2], ref.strides[rank - 1]);
  return ref;
}

std::string default_op_name(const Graph& graph, const Operation& op) {
  if (!op.outputs.empty()) return graph[op.outputs[0]].name;
  if (const auto* w = op.as<WaitKernel>(); w && w->start.valid()) return graph[w->start].name + ".wait";
  if (const auto* r = op.as<ReleaseKernel>(); r && r->start.valid()) return graph[r->start].name + ".release";
  if (const auto* m = op.as<Measure>()) return to_string(m->dim) + ".measured";
  return "";
}

}  // namespace braid::ir
