#include "passes/convolution_sums.h"

#include <algorithm>
#include <utility>

#include "ir/element.h"
#include "ir/strided_view.h"
#include "passes/constant_sums.h"

namespace braid::passes {

using namespace ir;

std::optional<TapClasses> tap_classes(const Graph& graph, const Convolution& k) {
  constexpr std::int64_t kMostClasses = 64;
  TapClasses found;
  for (std::size_t d = 0; d < k.windows.size(); ++d) {
    const Window& w = k.windows[d];
    if (!w.pad.is_constant() || w.pad.constant() < 0) return std::nullopt;
    const std::int64_t pad = w.pad.constant(), reach = (w.taps - 1) * w.dilation;
    const Expr in = k.a.sizes[d + 1], out = k.out.sizes[d + 1];
    // Positions [first, last] have all taps inside.
    const std::int64_t first = (pad + w.stride - 1) / w.stride;
    const Expr room = in - 1 - reach + pad;
    const Expr last = w.stride == 1 ? room : simplify(floor_div(room, w.stride), {});
    const Expr behind = simplify(out - 1 - last, {}), left = simplify(room - last * w.stride, {});
    // Without a position in the middle, one might lack taps at both ends.
    if (!behind.is_constant() || !left.is_constant() || !provably_non_negative(last - first + 1))
      return std::nullopt;
    const std::int64_t after = std::max<std::int64_t>(behind.constant(), 0);
    if (first + after > kMostClasses) return std::nullopt;
    std::vector<std::vector<bool>> classes;
    for (std::int64_t c = 0; c <= first + after; ++c) {
      std::vector<bool> taps;
      for (std::int64_t t = 0; t < w.taps; ++t) {
        const bool from_beginning = c >= first || c * w.stride + t * w.dilation - pad >= 0;
        const bool before_end =
            c <= first || (c - first) * w.stride + t * w.dilation - reach <= left.constant();
        taps.push_back(from_beginning && before_end);
      }
      classes.push_back(std::move(taps));
    }
    found.inside.push_back(std::move(classes));
    const Expr position = graph.pool->index(d + 1);
    Expr index = first == 0 ? Expr(0) : min(position, first);
    if (after > 0) index = index + max(position - last, 0);
    found.at.push_back(index);
  }
  return found;
}

std::optional<Sums> tap_sums(Graph& graph, const TapClasses& classes, const TensorRef& weights,
                             const TensorRef& out) {
  const std::optional<ConstantData> data = constant_tap_sums(graph, weights, classes.inside);
  if (!data) return std::nullopt;
  std::vector<Expr> sizes, at = classes.at;
  for (const auto& dimension : classes.inside) sizes.emplace_back(std::ssize(dimension));
  sizes.push_back(out.sizes.back());
  at.push_back(graph.pool->index(out.sizes.size() - 1));
  Sums sums;
  sums.buffer =
      graph.add_owned(graph[weights.buffer].name + ".sums", DType::i32, sizes, StorageKind::constant);
  graph[graph[sums.buffer].storage].data = *data;
  const std::vector<Expr> strides = contiguous_strides(sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d) sums.index = sums.index + at[d] * strides[d];
  return sums;
}

Sums tap_counts(Graph& graph, const TapClasses& classes, const TensorRef& weights) {
  std::vector<std::int64_t> counts = {weights.sizes[weights.sizes.size() - 2].constant()};
  Sums sums;
  std::vector<Expr> sizes;
  for (const auto& dimension : classes.inside) {
    std::vector<std::int64_t> next;
    for (std::int64_t before : counts) {
      for (const std::vector<bool>& taps : dimension)
        next.push_back(before * std::count(taps.begin(), taps.end(), true));
    }
    counts = std::move(next);
    sizes.emplace_back(std::ssize(dimension));
  }
  std::vector<std::byte> bytes(counts.size() * sizeof(std::int32_t));
  for (std::size_t k = 0; k < counts.size(); ++k)
    write_element(DType::i32, bytes.data() + k * sizeof(std::int32_t), counts[k]);
  sums.buffer =
      graph.add_owned(graph[weights.buffer].name + ".counts", DType::i32, sizes, StorageKind::constant);
  graph[graph[sums.buffer].storage].data = own_bytes(std::move(bytes));
  const std::vector<Expr> strides = contiguous_strides(sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d) sums.index = sums.index + classes.at[d] * strides[d];
  return sums;
}

WindowSums window_sums(Graph& graph, const Convolution& k, const TensorRef& a) {
  const std::size_t filter = k.b.sizes.size() - 1;
  std::vector<Expr> weights = k.b.sizes, kept = k.out.sizes;
  weights[filter] = 1;
  kept.back() = weights[0];
  const std::string name = graph[a.buffer].name + ".window_sums";
  const BufferId ones = graph.add_owned(name + ".ones", DType::i8, weights, StorageKind::constant);
  graph[graph[ones].storage].data =
      own_bytes(std::vector<std::byte>(static_cast<std::size_t>(numel(weights).constant()), std::byte{1}));
  WindowSums made{{graph.add_owned(name, DType::i32, kept), 0}, k};
  made.kernel.a = a;
  made.kernel.b = whole(graph, ones);
  made.kernel.out = whole(graph, made.sums.buffer);
  made.kernel.epilogue.reset();
  made.kernel.post_ops.clear();
  const std::vector<Expr> strides = contiguous_strides(kept);
  ExprPool& pool = *graph.pool;
  made.sums.index = strided_index(pool, std::span(kept).first(kept.size() - 1), strides);
  if (!kept.back().is_constant(1))
    made.sums.index =
        made.sums.index + simplify(floor_div(pool.index(kept.size() - 1), k.b.sizes.back()), k.out.sizes);
  return made;
}

}  // namespace braid::passes
