#include "passes/pad_results.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "analysis/costs/roofline.h"
#include "ir/copy_loop.h"
#include "ir/kernel_parts.h"
#include "passes/compact.h"
#include "passes/equal_parts.h"
#include "passes/joined_constants.h"
#include "passes/replace_operations.h"

namespace braid::passes {
namespace {

using namespace ir;

class Padder {
 public:
  Padder(Schedule& schedule, const PadResults& options, const analysis::Machine& machine)
      : graph_(schedule.graph), options_(options), machine_(machine), constants_(graph_) {
    for (const GraphOutput& o : graph_.outputs) outputs_.push_back(root_storage(graph_, o.buffer));
  }

  std::optional<std::vector<OpId>> padded(OpId id) {
    const Gemm* gemm = graph_[id].as<Gemm>();
    if (gemm == nullptr || gemm->epilogue || gemm->out.sizes.size() < 2 || !is_result(gemm->out))
      return std::nullopt;
    const DType type = graph_[gemm->out.buffer].dtype, in = graph_[gemm->b.buffer].dtype;
    if ((type != DType::f16 && type != DType::bf16) || in != type || graph_[gemm->a.buffer].dtype != type)
      return std::nullopt;
    const std::optional<TensorRef> weights = columns_of(gemm->b);
    if (!weights) return std::nullopt;
    const std::int64_t columns = gemm->out.sizes.back().constant(), unit = kRowUnit / size_of(type);
    if (columns % unit == 0 || !pays(graph_[id])) return std::nullopt;
    return in_parts(id, with_zeros(*weights, (columns + unit - 1) / unit * unit));
  }

 private:
  // Whether `out` is all of a row-major result of the program that has its own memory.
  bool is_result(const TensorRef& out) const {
    const Buffer& buffer = graph_[out.buffer];
    return buffer.storage.valid() && std::count(outputs_.begin(), outputs_.end(), buffer.storage) > 0 &&
           graph_[buffer.storage].kind != StorageKind::input && !graph_[buffer.storage].alias_of.valid() &&
           out.offset.is_constant(0) && is_contiguous(out.sizes, out.strides) &&
           is_contiguous(buffer.sizes, strides_of(graph_, out.buffer)) &&
           numel(out.sizes) == numel(buffer.sizes);
  }

  // [columns, depth] if all elements of the batch have one known matrix.
  std::optional<TensorRef> columns_of(const TensorRef& b) const {
    const std::size_t n = b.sizes.size();
    for (std::size_t d = 0; d + 2 < n; ++d) {
      if (!b.strides[d].is_constant(0) && !b.sizes[d].is_constant(1)) return std::nullopt;
    }
    TensorRef out{b.buffer, b.offset, {b.sizes[n - 1], b.sizes[n - 2]}, {b.strides[n - 1], b.strides[n - 2]}};
    return constants_.is_known(out) ? std::optional(out) : std::nullopt;
  }

  bool pays(const Operation& op) const {
    const analysis::KernelWork work = analysis::kernel_work(
        graph_, op, [](const Expr& e) { return bounds(e).max; }, [](BufferId) { return false; });
    const analysis::Roofline product = analysis::roofline(machine_, work);
    const TensorRef& out = op.as<Gemm>()->out;
    const double bytes = static_cast<double>(bounds(numel(out.sizes)).max) *
                         static_cast<double>(size_of(graph_[out.buffer].dtype));
    const double copy_us = machine_.launch_us + 2 * bytes / (machine_.memory_gb_s * 1e3);
    return product.us() + copy_us < std::max(options_.slowdown * product.compute_us, product.memory_us);
  }

  // Returns weights [rows, depth]; the rows after the given ones are 0.
  TensorRef with_zeros(const TensorRef& weights, std::int64_t rows) {
    const BufferId given = weights.buffer;
    const std::vector<Expr> sizes = {rows, weights.sizes[1]};
    const std::int64_t row_bytes = weights.sizes[1].constant() * size_of(graph_[given].dtype);
    if (!is_contiguous(weights.sizes, weights.strides) || row_bytes % kRowUnit != 0 || !fills_memory(weights))
      return constants_.rows({{weights, rows}});
    std::vector<std::vector<std::byte>> bytes;
    for (const std::span<const std::byte> rank : graph_[graph_[given].storage].data.per_rank) {
      std::vector<std::byte>& to = bytes.emplace_back(static_cast<std::size_t>(rows * row_bytes));
      std::copy(rank.begin(), rank.end(), to.begin());
    }
    const BufferId longer =
        graph_.add_owned(graph_[given].name + ".padded", graph_[given].dtype, sizes, StorageKind::constant);
    graph_[graph_[longer].storage].data = own_bytes_of_ranks(std::move(bytes));
    const std::vector<Expr> strides = strides_of(graph_, given);
    graph_[given].layout = NonOwningLayout{longer, 0, strides};
    graph_[given].storage = {};
    return whole(graph_, longer);
  }

  bool fills_memory(const TensorRef& weights) const {
    const StorageId memory = graph_[weights.buffer].storage;
    if (!memory.valid() || !weights.offset.is_constant(0)) return false;
    const auto owners = std::count_if(graph_.buffers.begin(), graph_.buffers.end(),
                                      [&](const Buffer& b) { return b.storage == memory; });
    const Expr bytes = numel(weights.sizes) * size_of(graph_[weights.buffer].dtype);
    return owners == 1 && graph_[memory].bytes == bytes && !graph_[memory].alias_of.valid();
  }

  std::vector<OpId> in_parts(OpId id, const TensorRef& rows) {
    const Gemm given = *graph_[id].as<Gemm>();
    const TensorRef out = given.out;
    const std::string name = graph_[out.buffer].name;
    const DType type = graph_[out.buffer].dtype;
    std::vector<Expr> sizes = out.sizes;
    sizes.back() = rows.sizes[0];
    const Expr of_one = max(numel(std::span(sizes).subspan(1)), 1);
    const EqualParts parts = equal_parts(sizes[0], of_one, options_.part_bytes / size_of(type), kMostParts);
    std::vector<OpId> ops;
    const auto add = [&](const char* suffix, Kernel kernel, BufferId output) {
      ops.push_back(graph_.add_op(
          {graph_[id].name + suffix, std::move(kernel), {output}, graph_[id].origins, std::nullopt}));
    };
    if (parts.count > 1) graph_[out.buffer].producer = {};
    for (std::int64_t k = 0; k < parts.count; ++k) {
      const Range range = parts.range(k);
      sizes[0] = range.size;
      Gemm product = given;
      product.a.offset = product.a.offset + range.start * product.a.strides[0];
      product.a.sizes[0] = range.size;
      product.b.buffer = rows.buffer;
      product.b.offset = rows.offset;
      if (sizes.size() > 2) product.b.sizes[0] = range.size;
      product.b.sizes.back() = rows.sizes[0];
      product.b.strides[sizes.size() - 2] = rows.strides[1];
      product.b.strides[sizes.size() - 1] = rows.strides[0];
      product.out = memory(name + ".padded", type, sizes, parts.most);
      const BufferId stored = product.out.buffer;
      add(".padded", std::move(product), stored);
      TensorRef from = whole(graph_, stored), to = out;
      from.sizes.back() = out.sizes.back();
      if (parts.count > 1) to = part_of(out, range);
      Operation copy = copy_loop(graph_, from, to);
      if (k + 1 < parts.count) {
        add(".part", std::move(copy.kernel), to.buffer);
        continue;
      }
      graph_[id].kernel = std::move(copy.kernel);
      graph_[id].outputs = {to.buffer};
      graph_[id].cost.reset();
      graph_[to.buffer].producer = id;
      ops.push_back(id);
    }
    return ops;
  }

  // Adds memory for a tensor of these sizes, of at most `most` elements.
  TensorRef memory(std::string name, DType type, const std::vector<Expr>& sizes,
                   const std::optional<Expr>& most) {
    if (!most) return whole(graph_, graph_.add_owned(std::move(name), type, sizes));
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = type;
    buffer.sizes = sizes;
    buffer.layout = FixedLayout{contiguous_strides(sizes)};
    buffer.storage =
        graph_.add_storage({.name = std::move(name), .bytes = min(numel(sizes), *most) * size_of(type)});
    return whole(graph_, graph_.add_buffer(std::move(buffer)));
  }

  TensorRef part_of(const TensorRef& out, const Range& range) {
    Buffer view;
    view.name = graph_[out.buffer].name + ".part";
    view.dtype = graph_[out.buffer].dtype;
    view.sizes = out.sizes;
    view.sizes[0] = range.size;
    view.layout = NonOwningLayout{out.buffer, range.start * out.strides[0], out.strides};
    return whole(graph_, graph_.add_buffer(std::move(view)));
  }

  static constexpr std::int64_t kMostParts = 64;
  Graph& graph_;
  const PadResults& options_;
  const analysis::Machine& machine_;
  JoinedConstants constants_;
  std::vector<StorageId> outputs_;
};

}  // namespace

bool PadResults::run(Schedule& schedule, PassContext& context) const {
  const IdVector<OpId, bool> in_region = in_regions(schedule.graph);
  Padder padder(schedule, *this, context.costs->machine());
  const bool changed = replace_operations(schedule, [&](OpId id) -> std::optional<std::vector<OpId>> {
    return in_region[id] ? std::nullopt : padder.padded(id);
  });
  if (changed) compact(schedule);
  return changed;
}

}  // namespace braid::passes
