#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/kernel_parts.h"

namespace braid::ir {
std::string NameTable::unique(const std::string& wanted, const char* fallback) {
  const std::string base = wanted.empty() ? fallback : wanted;
  auto [it, fresh] = next_suffix_.try_emplace(base, 1);
  if (fresh) return base;
  for (;;) {
    std::string name = fmt::format("{}.{}", base, it->second++);
    if (next_suffix_.try_emplace(name, 1).second) return name;
    it = next_suffix_.find(base);
  }
}

std::span<const std::byte> ConstantData::of_rank(int rank) const {
  internal_check(!per_rank.empty(), "the data of a constant is unknown");
  return same_on_all_ranks() ? per_rank[0] : per_rank[static_cast<std::size_t>(rank)];
}

ConstantData own_bytes(std::vector<std::byte> bytes) {
  std::vector<std::vector<std::byte>> all;
  all.push_back(std::move(bytes));
  return own_bytes_of_ranks(std::move(all));
}

ConstantData own_bytes_of_ranks(std::vector<std::vector<std::byte>> per_rank) {
  auto owner = std::make_shared<const std::vector<std::vector<std::byte>>>(std::move(per_rank));
  ConstantData data;
  for (const std::vector<std::byte>& bytes : *owner) data.per_rank.emplace_back(bytes);
  data.owner = owner;
  return data;
}

Expr Graph::add_dim(std::string_view name, Bounds bounds) {
  if (std::optional<Expr> known = pool->find_dim(name)) {
    if (std::find(dims.begin(), dims.end(), *known) == dims.end()) dims.push_back(*known);
    return pool->dim(name, bounds);
  }
  dims.push_back(pool->dim(name, bounds));
  return dims.back();
}

GroupId Graph::add_group(std::string name, std::vector<int> ranks_in) {
  return add_partition(std::move(name), {std::move(ranks_in)});
}

GroupId Graph::add_partition(std::string name, Parts parts) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].name != name) continue;
    internal_check(groups[i].parts == parts, "group '{}' declared twice with different ranks", name);
    return {static_cast<std::int32_t>(i)};
  }
  groups.push_back({std::move(name), std::move(parts)});
  return {static_cast<std::int32_t>(groups.size() - 1)};
}

StorageId Graph::add_storage(Storage storage) {
  storage.name = storage_names.unique(storage.name, "s");
  storages.push_back(std::move(storage));
  return {static_cast<std::int32_t>(storages.size() - 1)};
}

BufferId Graph::add_buffer(Buffer buffer) {
  buffer.name = buffer_names.unique(buffer.name, "b");
  buffers.push_back(std::move(buffer));
  return {static_cast<std::int32_t>(buffers.size() - 1)};
}

OpId Graph::add_op(Operation op) {
  op.name = op_names.unique(op.name, "op");
  ops.push_back(std::move(op));
  const OpId id{static_cast<std::int32_t>(ops.size() - 1)};
  if (ops.back().as<Measure>() != nullptr) measures.push_back(id);
  for (BufferId b : ops.back().outputs) (*this)[b].producer = id;
  return id;
}

BufferId Graph::add_owned(std::string name, DType dtype, std::vector<Expr> sizes, StorageKind kind) {
  Storage storage;
  storage.name = name;
  storage.kind = kind;
  storage.bytes = numel(sizes) * size_of(dtype);
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.layout = FixedLayout{contiguous_strides(sizes)};
  buffer.sizes = std::move(sizes);
  buffer.storage = add_storage(std::move(storage));
  return add_buffer(std::move(buffer));
}

BufferId Graph::add_padded(std::string name, DType dtype, std::vector<Expr> sizes, StorageKind kind) {
  const std::int64_t unit = kRowUnit / size_of(dtype);
  std::vector<Expr> padded = sizes;
  padded.back() = ceil_div(sizes.back(), unit) * unit;
  const BufferId id = add_owned(std::move(name), dtype, std::move(padded), kind);
  (*this)[id].sizes = std::move(sizes);
  return id;
}

BufferId Graph::add_mutation(BufferId of, std::string name) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = (*this)[of].dtype;
  buffer.sizes = (*this)[of].sizes;
  buffer.layout = MutationOutput{of};
  return add_buffer(std::move(buffer));
}

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (std::size_t k = sizes.size(); k-- > 0;) {
    strides[k] = stride;
    stride = stride * sizes[k];
  }
  return strides;
}

bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides) {
  const std::vector<Expr> expected = contiguous_strides(sizes);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!sizes[k].is_constant(1) && !(strides[k] == expected[k])) return false;
  }
  return true;
}

Expr numel(std::span<const Expr> sizes) { return product(sizes); }

BufferId unmutated(const Graph& graph, BufferId buffer) {
  while (const auto* m = std::get_if<MutationOutput>(&graph[buffer].layout)) buffer = m->of;
  return buffer;
}

std::vector<Expr> strides_of(const Graph& graph, BufferId buffer) {
  const Buffer& b = graph[unmutated(graph, buffer)];
  if (const auto* l = std::get_if<FixedLayout>(&b.layout)) return l->strides;
  if (const auto* l = std::get_if<NonOwningLayout>(&b.layout)) return l->strides;
  if (const auto* l = std::get_if<CommBufferLayout>(&b.layout)) return l->strides;
  return contiguous_strides(b.sizes);
}

TensorRef whole(const Graph& graph, BufferId buffer) {
  return {buffer, 0, graph[buffer].sizes, strides_of(graph, buffer)};
}

StorageId root_storage(const Graph& graph, StorageId storage) {
  while (graph[storage].alias_of.valid()) storage = graph[storage].alias_of;
  return storage;
}

namespace {

// Offset of a buffer's first element in its storage, in bytes.
std::pair<StorageId, Expr> origin(const Graph& graph, BufferId buffer) {
  buffer = unmutated(graph, buffer);
  const Buffer& b = graph[buffer];
  if (const auto* view = std::get_if<NonOwningLayout>(&b.layout)) {
    auto [storage, offset] = origin(graph, view->base);
    return {storage, offset + view->offset * size_of(b.dtype)};
  }
  return {b.storage.valid() ? root_storage(graph, b.storage) : b.storage, 0};
}

}  // namespace

StorageId root_storage(const Graph& graph, BufferId buffer) { return origin(graph, buffer).first; }

MemoryRegion region(const Graph& graph, const TensorRef& ref) {
  auto [storage, start] = origin(graph, ref.buffer);
  const Expr item = size_of(graph[ref.buffer].dtype);
  MemoryRegion r{storage, start + ref.offset * item};
  r.begin = r.offset;
  r.end = r.offset;
  for (const Expr& s : ref.sizes) {
    if (s.is_constant(0)) return r;
  }
  Expr last = 1;
  for (std::size_t k = 0; k < ref.sizes.size(); ++k) {
    const Expr reach = ref.strides[k] * (ref.sizes[k] - 1);
    if (provably_non_negative(-ref.strides[k]) && !ref.strides[k].is_constant(0)) {
      r.begin = r.begin + reach * item;
    } else {
      last = last + reach;
    }
  }
  r.end = r.offset + last * item;
  return r;
}

MemoryRegion region(const Graph& graph, BufferId buffer) {
  if (std::holds_alternative<NoneLayout>(graph[buffer].layout) ||
      std::holds_alternative<MultiOutputLayout>(graph[buffer].layout)) {
    return {};
  }
  return region(graph, whole(graph, buffer));
}

bool may_overlap(const MemoryRegion& a, const MemoryRegion& b) {
  if (!a.storage.valid() || a.storage != b.storage) return false;
  return !provably_non_negative(b.begin - a.end) && !provably_non_negative(a.begin - b.end);
}

std::string_view to_string(ReduceKind kind) {
  constexpr std::string_view names[] = {"sum", "prod", "max", "min", "avg"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(PostOp::Kind kind) {
  constexpr std::string_view names[] = {"identity",   "relu",       "gelu_tanh", "gelu_erf",   "tanh",
                                        "sigmoid",    "swish",      "relu6",     "hard_swish", "scale",
                                        "mul_vector", "add_vector", "add_matrix"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(PoolKind kind) {
  constexpr std::string_view names[] = {"max", "arg_max", "sum", "average"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(UndefinedRows rows) {
  constexpr std::string_view names[] = {"zero_if_masked", "nan", "zero"};
  return names[static_cast<std::size_t>(rows)];
}

std::string_view to_string(CellKind kind) {
  constexpr std::string_view names[] = {"rnn", "gru", "lstm"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(StorageKind kind) {
  constexpr std::string_view names[] = {"input", "output", "constant", "activation", "comm"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(CommBufferKind kind) {
  constexpr std::string_view names[] = {"symmetric", "registered"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(RegionKind kind) {
  constexpr std::string_view names[] = {"call", "branch", "repeat", "while"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace braid::ir
