#include "passes/expand_convolutions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "ir/post_ops.h"
#include "ir/typing.h"
#include "passes/pack_rows.h"
#include "passes/replace_operations.h"
#include "passes/window_body.h"

namespace braid::passes {
namespace {

using namespace ir;

// Expands one convolution with `s` spatial dimensions and g groups of c channels and m filters.
class ConvolutionExpansion {
 public:
  ConvolutionExpansion(Graph& graph, OpId id, RowPacker& packer, std::int64_t window_bytes, bool in_region)
      : graph_(graph),
        id_(id),
        packer_(packer),
        window_bytes_(window_bytes),
        in_region_(in_region),
        k_(*graph[id].as<Convolution>()),
        spatial_(k_.windows.size()),
        groups_(k_.b.sizes[0]),
        channels_(k_.b.sizes[spatial_ + 1]),
        filters_(k_.b.sizes[spatial_ + 2]) {
    for (const Window& w : k_.windows) taps_.emplace_back(w.taps);
  }

  // The weights of the operation become rows [g, m, taps... * c].
  std::vector<OpId> keep() {
    TensorRef from{.buffer = k_.b.buffer, .offset = k_.b.offset};
    std::vector<std::size_t> order = {0, spatial_ + 2};
    for (std::size_t d = 1; d <= spatial_ + 1; ++d) order.push_back(d);
    for (std::size_t d : order) {
      from.sizes.push_back(k_.b.sizes[d]);
      from.strides.push_back(k_.b.strides[d]);
    }
    const TensorRef rows = packer_.rows(from, 2, ops_);
    TensorRef& weights = graph_[id_].as<Convolution>()->b;
    weights.buffer = rows.buffer;
    weights.offset = rows.offset;
    weights.strides.front() = rows.strides[0];
    weights.strides.back() = rows.strides[1];
    Expr step = 1;
    for (std::size_t d = spatial_ + 1; d > 0; --d) {
      weights.strides[d] = step;
      step = step * weights.sizes[d];
    }
    ops_.push_back(id_);
    return std::move(ops_);
  }

  std::vector<OpId> run() {
    if (k_.transposed) {
      transposed();
    } else {
      forward();
    }
    graph_[id_].cost.reset();
    ops_.push_back(id_);
    return std::move(ops_);
  }

 private:
  void forward() {
    const std::vector<Part> parts = reads_in_place() ? std::vector{whole_image()} : window_parts();
    if (parts.size() == 1) {
      Gemm product = of_part(parts[0], k_.out);
      product.epilogue = k_.epilogue;
      if (k_.epilogue && has_groups()) product.epilogue = epilogue_by_group();
      if (!k_.post_ops.empty()) product.post_ops = find_post_ops(graph_, product);
      graph_[id_].kernel = std::move(product);
      return;
    }
    graph_[k_.out.buffer].producer = {};
    for (const Part& part : parts) {
      const TensorRef stored = view_of_result(part);
      Gemm product = of_part(part, stored);
      if (&part != &parts.back()) {
        add(".part", std::move(product), stored.buffer);
        continue;
      }
      graph_[id_].kernel = std::move(product);
      graph_[id_].outputs = {stored.buffer};
      graph_[stored.buffer].producer = id_;
    }
  }

  // Positions [start, start + size) of the first spatial dimension.
  struct Part {
    Expr start, size;
  };
  Part whole_image() const { return {0, spatial_ == 0 ? Expr(1) : k_.out.sizes[1]}; }

  // Whether views may fill the result: its memory is its own, and only this program writes it.
  bool may_be_parts() const {
    const Buffer& out = graph_[k_.out.buffer];
    return spatial_ > 0 && !k_.epilogue && !in_region_ && out.storage.valid() &&
           graph_[out.storage].kind != StorageKind::input && !graph_[out.storage].alias_of.valid();
  }

  // Divides the result into the fewest parts whose windows take at most `window_bytes_` each, at the upper
  // bounds of the dimensions, but into at most kMostParts.
  std::vector<Part> window_parts() const {
    constexpr std::int64_t kMostParts = 64;
    if (!may_be_parts()) return {whole_image()};
    double bytes = static_cast<double>(size_of(graph_[k_.a.buffer].dtype)) *
                   static_cast<double>(bounds(groups_ * terms()).max);
    for (std::size_t d = 0; d <= spatial_; ++d) bytes *= static_cast<double>(bounds(k_.out.sizes[d]).max);
    const Expr all = k_.out.sizes[1];
    const auto most = static_cast<double>(std::clamp<std::int64_t>(bounds(all).max, 1, kMostParts));
    const auto count = static_cast<std::int64_t>(
        std::clamp(std::ceil(bytes / static_cast<double>(window_bytes_)), 1.0, most));
    if (count == 1) return {whole_image()};
    const Expr size = ceil_div(all, count);
    std::vector<Part> parts;
    for (std::int64_t k = 0; k < count; ++k) {
      const Part part{size * k, min(size, max(all - size * k, 0))};
      if (!part.size.is_constant(0)) parts.push_back(part);
    }
    return parts;
  }

  Gemm of_part(const Part& part, const TensorRef& out) {
    Gemm product;
    product.tf32 = k_.tf32;
    if (reads_in_place()) {
      TensorRef image = k_.a;
      std::copy_n(k_.out.sizes.begin(), spatial_ + 1, image.sizes.begin());
      product.a = rows(image, channels_ * image.strides.back(), channels_);
    } else {
      const TensorRef all = windows(part);
      product.a = rows(all, all.strides[spatial_ + 1], terms());
    }
    std::vector<std::size_t> taps_and_channels = along_taps();
    taps_and_channels.push_back(spatial_ + 1);
    product.b = weights({0, spatial_ + 2}, taps_and_channels, filters_, product.a);
    product.out = rows(out, filters_ * out.strides.back(), filters_);
    return product;
  }

  TensorRef view_of_result(const Part& part) {
    Buffer view;
    view.name = graph_[k_.out.buffer].name + ".part";
    view.dtype = graph_[k_.out.buffer].dtype;
    view.sizes = k_.out.sizes;
    view.sizes[1] = part.size;
    view.layout =
        NonOwningLayout{k_.out.buffer, k_.out.offset + part.start * k_.out.strides[1], k_.out.strides};
    return whole(graph_, graph_.add_buffer(std::move(view)));
  }

  // Every position times every tap, then the sums of what meets at one element.
  void transposed() {
    std::vector<Expr> sizes(k_.a.sizes.begin(), k_.a.sizes.end() - 1);
    const Expr columns = numel(taps_) * filters_;
    const DType type = graph_[k_.out.buffer].dtype, sums = accumulator_of(graph_[k_.a.buffer].dtype);
    sizes.insert(sizes.end(), {groups_, columns});
    const TensorRef met = whole(graph_, graph_.add_padded(graph_[id_].name + ".taps", sums, sizes));
    Gemm product;
    product.tf32 = k_.tf32;
    product.a = rows(k_.a, channels_ * k_.a.strides.back(), channels_);
    std::vector<std::size_t> columns_of = along_taps();
    columns_of.insert(columns_of.begin(), 0);
    columns_of.push_back(spatial_ + 2);
    product.b = weights(columns_of, {spatial_ + 1}, columns, product.a);
    product.out = rows(met, met.strides[spatial_ + 1], columns);
    add(".taps", std::move(product), met.buffer);
    if (type == sums) {
      graph_[id_].kernel = overlaid(met, k_.out);
      return;
    }
    const TensorRef wide = whole(graph_, graph_.add_owned(graph_[id_].name + ".sums", sums, k_.out.sizes));
    add(".sums", overlaid(met, wide), wide.buffer);
    WindowBody body(graph_, k_.out.sizes);
    std::vector<Expr> at;
    for (std::size_t d = 0; d < k_.out.sizes.size(); ++d) at.push_back(body.at(d));
    const ValueId sum = body.element_of(wide, at);
    graph_[id_].kernel =
        body.loops(at.size(), ReduceKind::sum, body.cast(sum, type), WindowBody::offset(k_.out, at));
  }

  // out [n, p..., g, m] over taps of `met` [n, q..., g, taps... * m].
  Loops overlaid(const TensorRef& met, const TensorRef& out) const {
    std::vector<Expr> sizes(k_.out.sizes.begin(), k_.out.sizes.end() - 1);
    sizes.insert(sizes.end(), {groups_, filters_});
    const std::size_t kept = sizes.size();
    sizes.insert(sizes.end(), taps_.begin(), taps_.end());
    WindowBody body(graph_, std::move(sizes));
    const Expr group = body.at(spatial_ + 1), filter = body.at(spatial_ + 2);
    std::vector<Expr> from = {body.at(0)}, to = {body.at(0)};
    Expr tap = 0;
    for (std::size_t d = 0; d < spatial_; ++d) {
      const Expr position = body.at(d + 1), t = body.at(kept + d);
      from.push_back(body.element(k_.windows[d], true, position, t, k_.a.sizes[d + 1]));
      to.push_back(position);
      tap = tap * k_.windows[d].taps + t;
    }
    from.insert(from.end(), {group, tap * filters_ + filter});
    to.push_back(group * filters_ + filter);
    const ValueId value = body.element_of(met, from);
    return body.loops(kept, ReduceKind::sum, value, WindowBody::offset(out, to));
  }

  // Whether the window at p is the pixel at p.
  bool reads_in_place() const {
    for (std::size_t d = 0; d < spatial_; ++d) {
      const Window& w = k_.windows[d];
      if (w.taps != 1 || w.stride != 1 || !w.pad.is_constant(0)) return false;
      if (!provably_non_negative(k_.a.sizes[d + 1] - k_.out.sizes[d + 1])) return false;
    }
    return true;
  }

  // Adds memory for windows [n, p..., g, taps... * c]. All parts store theirs in the memory of the first
  // part, which is the longest, one after the other. Therefore no pass merges them into one loop.
  TensorRef stored_windows(std::vector<Expr> sizes) {
    const std::string name = graph_[id_].name + ".windows";
    sizes.push_back(terms());
    const BufferId buffer = windows_ ? graph_.add_mutation(*windows_, name)
                                     : graph_.add_padded(name, graph_[k_.a.buffer].dtype, sizes);
    windows_ = buffer;
    TensorRef out = whole(graph_, buffer);
    out.sizes = std::move(sizes);
    return out;
  }

  // [n, p..., g, taps... * c]: what the window at p covers.
  TensorRef windows(const Part& part) {
    std::vector<Expr> sizes(k_.out.sizes.begin(), k_.out.sizes.end() - 1);
    if (spatial_ > 0) sizes[1] = part.size;
    sizes.push_back(groups_);
    const TensorRef rows = stored_windows(sizes);
    const std::size_t first = sizes.size();
    sizes.insert(sizes.end(), taps_.begin(), taps_.end());
    sizes.push_back(channels_);
    const std::size_t kept = sizes.size();
    WindowBody body(graph_, std::move(sizes));
    const Expr group = body.at(spatial_ + 1), channel = body.at(first + spatial_);
    std::vector<Expr> from = {body.at(0)}, to = {body.at(0)};
    Expr term = 0;
    for (std::size_t d = 0; d < spatial_; ++d) {
      const Expr position = body.at(d + 1), tap = body.at(first + d);
      const Expr at = d == 0 ? part.start + position : position;
      from.push_back(body.element(k_.windows[d], false, at, tap, k_.a.sizes[d + 1]));
      to.push_back(position);
      term = term * k_.windows[d].taps + tap;
    }
    from.push_back(group * channels_ + channel);
    to.insert(to.end(), {group, term * channels_ + channel});
    const ValueId value = body.element_of(k_.a, from);
    add(".windows", body.loops(kept, ReduceKind::sum, value, WindowBody::offset(rows, to)), rows.buffer);
    return rows;
  }

  // [n, p..., ...] as rows of so many elements: [g, n, p..., row], without g if there is one group.
  TensorRef rows(const TensorRef& ref, Expr group_stride, Expr row) const {
    TensorRef out{.buffer = ref.buffer, .offset = ref.offset};
    const auto add = [&](Expr size, Expr stride) {
      out.sizes.push_back(size);
      out.strides.push_back(stride);
    };
    if (has_groups()) add(groups_, group_stride);
    for (std::size_t d = 0; d <= spatial_; ++d) add(ref.sizes[d], ref.strides[d]);
    add(row, ref.strides.back());
    return out;
  }

  // Returns the right operand [g, n, p..., rows, columns] for the left operand `a`: matrices that are the
  // same for all n and p, stored as columns. `columns` and `row` are dimensions of the weights.
  TensorRef weights(const std::vector<std::size_t>& columns, const std::vector<std::size_t>& row, Expr count,
                    const TensorRef& a) {
    TensorRef from{.buffer = k_.b.buffer, .offset = k_.b.offset};
    for (const std::vector<std::size_t>* part : {&columns, &row}) {
      for (std::size_t d : *part) {
        from.sizes.push_back(k_.b.sizes[d]);
        from.strides.push_back(k_.b.strides[d]);
      }
    }
    if (!packed_) packed_ = packer_.rows(from, columns.size(), ops_);
    const TensorRef& packed = *packed_;
    TensorRef out{.buffer = packed.buffer, .offset = packed.offset};
    out.sizes.assign(a.sizes.begin(), a.sizes.end() - 2);
    out.strides.assign(out.sizes.size(), 0);
    if (has_groups()) out.strides[0] = packed.strides.front();
    out.sizes.insert(out.sizes.end(), {packed.sizes.back(), count});
    out.strides.insert(out.strides.end(), {Expr(1), packed.strides[packed.strides.size() - 2]});
    return out;
  }

  LoopBody epilogue_by_group() const {
    WindowBody body(graph_, rows(k_.out, 0, filters_).sizes);
    std::vector<Expr> by;
    for (std::size_t d = 0; d <= spatial_; ++d) by.push_back(body.at(d + 1));
    by.push_back(body.at(0) * filters_ + body.at(spatial_ + 2));
    return body.finish(body.inline_body(*k_.epilogue, by));
  }

  std::vector<std::size_t> along_taps() const {
    std::vector<std::size_t> out(spatial_);
    std::iota(out.begin(), out.end(), std::size_t{1});
    return out;
  }
  void add(const char* suffix, Kernel kernel, BufferId output) {
    ops_.push_back(graph_.add_op(
        {graph_[id_].name + suffix, std::move(kernel), {output}, graph_[id_].origins, std::nullopt}));
  }
  bool has_groups() const { return !groups_.is_constant(1); }
  Expr terms() const { return numel(taps_) * channels_; }

  Graph& graph_;
  const OpId id_;
  RowPacker& packer_;
  const std::int64_t window_bytes_;
  const bool in_region_;
  const Convolution k_;
  const std::size_t spatial_;
  const Expr groups_, channels_, filters_;
  std::vector<Expr> taps_;
  std::optional<TensorRef> packed_;  // weights, of all parts
  std::optional<BufferId> windows_;  // of the part before
  std::vector<OpId> ops_;
};

}  // namespace

bool ExpandConvolutions::run(Schedule& schedule) const {
  Graph& graph = schedule.graph;
  RowPacker packer(graph);
  const auto becomes_product = [&](const Convolution& k) {
    const DType type = graph[k.a.buffer].dtype;
    const bool has_type = type == DType::f32 || type == DType::f16 || type == DType::bf16;
    if (!has_type || graph[k.b.buffer].dtype != type || (k.transposed && k.epilogue)) return false;
    const std::size_t last = k.b.sizes.size() - 1;
    const Expr terms = numel(std::span(k.b.sizes).subspan(1, last - 1));
    return bounds(terms).max > min_terms || bounds(k.b.sizes[last]).max >= min_filters;
  };
  const IdVector<OpId, bool> in_region = in_regions(graph);
  return replace_operations(schedule, [&](OpId id) -> std::optional<std::vector<OpId>> {
    const auto* k = graph[id].as<Convolution>();
    if (k == nullptr) return std::nullopt;
    ConvolutionExpansion expansion(graph, id, packer, window_bytes, in_region[id]);
    if (has_kernel && has_kernel(graph, *k)) return expansion.keep();
    return becomes_product(*k) ? std::optional(expansion.run()) : std::nullopt;
  });
}

}  // namespace braid::passes
