#include "passes/pack_rows.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ir/copy_loop.h"

namespace braid::passes {

using namespace ir;

namespace {

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

bool aligned(Expr bytes) { return provably_multiple(bytes, kRowUnit); }

}  // namespace

TensorRef transposed_matrices(TensorRef b) {
  const std::size_t n = b.sizes.size();
  for (std::size_t d = 0; d + 2 < n; ++d) {
    if (b.strides[d].is_constant(0)) b.sizes[d] = 1;
  }
  std::swap(b.sizes[n - 2], b.sizes[n - 1]);
  std::swap(b.strides[n - 2], b.strides[n - 1]);
  return b;
}

TensorRef RowPacker::rows(const TensorRef& from, std::size_t outer, std::vector<OpId>& copies) {
  if (const std::optional<TensorRef> stored = as_rows(from, outer)) return *stored;
  std::vector<std::pair<TensorRef, TensorRef>>& earlier = packed_[from.buffer];
  for (const auto& [given, rows] : earlier) {
    if (given == from && rows.sizes.size() == outer + 1) return rows;
  }
  const DType type = graph_[from.buffer].dtype;
  const std::string name = graph_[from.buffer].name + ".rows";
  std::vector<Expr> sizes(from.sizes.begin(), from.sizes.begin() + std::ptrdiff_t(outer));
  sizes.push_back(numel(std::span(from.sizes).subspan(outer)));
  if (is_known(from)) {
    const BufferId id = graph_.add_padded(name, type, sizes, StorageKind::constant);
    graph_[graph_[id].storage].data = bytes_of(from, outer);
    earlier.emplace_back(from, whole(graph_, id));
    return earlier.back().second;
  }
  const BufferId id = graph_.add_padded(name, type, sizes);
  TensorRef to = whole(graph_, id);
  const std::vector<Expr> inner = contiguous_strides(std::span(from.sizes).subspan(outer));
  to.sizes = from.sizes;
  to.strides.pop_back();
  to.strides.insert(to.strides.end(), inner.begin(), inner.end());
  Operation copy = copy_loop(graph_, from, to);
  copy.outputs = {id};
  copies.push_back(graph_.add_op(std::move(copy)));
  return whole(graph_, id);
}

std::optional<TensorRef> RowPacker::as_rows(const TensorRef& from, std::size_t outer) const {
  const std::int64_t item = size_of(graph_[from.buffer].dtype);
  if (!aligned(region(graph_, from.buffer).offset + from.offset * item)) return std::nullopt;
  TensorRef out = from;
  out.sizes.erase(out.sizes.begin() + std::ptrdiff_t(outer), out.sizes.end());
  out.strides.erase(out.strides.begin() + std::ptrdiff_t(outer), out.strides.end());
  if (!is_contiguous(std::span(from.sizes).subspan(outer), std::span(from.strides).subspan(outer)) ||
      !aligned(out.strides.back() * item))
    return std::nullopt;
  // Rows follow one another at one distance.
  for (std::size_t d = outer - 1; d-- > 0;) {
    const Expr next = out.strides[d + 1] * out.sizes[d + 1];
    if (out.sizes[d].is_constant(1)) {
      out.strides[d] = next;
    } else if (!(out.strides[d] == next)) {
      return std::nullopt;
    }
  }
  out.sizes.push_back(numel(std::span(from.sizes).subspan(outer)));
  out.strides.emplace_back(1);
  return out;
}

bool RowPacker::is_known(const TensorRef& from) const {
  const MemoryRegion where = region(graph_, from.buffer);
  if (!where.storage.valid() || graph_[where.storage].kind != StorageKind::constant) return false;
  const auto is_number = [](Expr e) { return e.is_constant() && e.constant() >= 0; };
  if (!is_number(where.offset) || !is_number(from.offset)) return false;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (!is_number(from.sizes[d]) || !is_number(from.strides[d])) return false;
  }
  const MemoryRegion read = region(graph_, from);
  const std::vector<std::span<const std::byte>>& bytes = graph_[where.storage].data.per_rank;
  return !bytes.empty() && read.end.is_constant() &&
         std::all_of(bytes.begin(), bytes.end(), [&](std::span<const std::byte> rank) {
           return read.end.constant() <= std::ssize(rank);
         });
}

ConstantData RowPacker::bytes_of(const TensorRef& from, std::size_t outer) const {
  const MemoryRegion where = region(graph_, from.buffer);
  const std::size_t item = count(size_of(graph_[from.buffer].dtype));
  std::vector<std::size_t> sizes, strides;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    sizes.push_back(count(from.sizes[d].constant()));
    strides.push_back(count(from.strides[d].constant()) * item);
  }
  std::size_t row = 1, rows = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) (d < outer ? rows : row) *= sizes[d];
  constexpr std::size_t kUnit = kRowUnit;
  const std::size_t pitch = (row * item + kUnit - 1) / kUnit * kUnit;
  std::vector<std::vector<std::byte>> out;
  for (const std::span<const std::byte> bytes : graph_[where.storage].data.per_rank) {
    std::vector<std::byte>& to = out.emplace_back(rows * pitch);
    std::vector<std::size_t> at(sizes.size(), 0);
    std::size_t element = count(where.offset.constant()) + count(from.offset.constant()) * item;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < row; ++k) {
        std::memcpy(&to[r * pitch + k * item], &bytes[element], item);
        for (std::size_t d = sizes.size(); d-- > 0;) {
          element += strides[d];
          if (++at[d] < sizes[d]) break;
          element -= at[d] * strides[d];
          at[d] = 0;
        }
      }
    }
  }
  return own_bytes_of_ranks(std::move(out));
}

}  // namespace braid::passes
