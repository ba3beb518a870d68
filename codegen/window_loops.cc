#include "codegen/window_loops.h"

#include <limits>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/scalar.h"
#include "ir/typing.h"
#include "passes/window_body.h"

namespace braid::codegen {
namespace {

using namespace ir;
using passes::WindowBody;

// Channels and filters are counted within a group, so that no index divides: out [n, spatial..., groups, m].
Loops convolution_loops(const Graph& graph, const Convolution& k) {
  const std::size_t spatial = k.windows.size();
  const Expr groups = k.b.sizes[0], channels = k.b.sizes[spatial + 1], filters = k.b.sizes[spatial + 2];
  std::vector<Expr> sizes(k.out.sizes.begin(), k.out.sizes.end() - 1);
  sizes.insert(sizes.end(), {groups, filters});
  const std::size_t kept = sizes.size();
  for (const Window& w : k.windows) sizes.push_back(w.taps);
  sizes.push_back(channels);
  WindowBody body(graph, std::move(sizes));
  const Expr group = body.at(spatial + 1), filter = body.at(spatial + 2), channel = body.at(kept + spatial);
  std::vector<Expr> in = {body.at(0)}, weight = {group}, out = {body.at(0)};
  for (std::size_t d = 0; d < spatial; ++d) {
    const Expr position = body.at(d + 1), tap = body.at(kept + d);
    in.push_back(body.element(k.windows[d], k.transposed, position, tap, k.a.sizes[d + 1]));
    weight.push_back(tap);
    out.push_back(position);
  }
  in.push_back(group * channels + channel);
  weight.insert(weight.end(), {channel, filter});
  out.push_back(group * filters + filter);
  const DType sums = accumulator_of(graph[k.a.buffer].dtype);
  const ValueId a = body.cast(body.element_of(k.a, in), sums);
  const ValueId b = body.cast(body.load(k.b.buffer, graph[k.b.buffer].dtype, body.offset(k.b, weight)), sums);
  return body.loops(kept, ReduceKind::sum, body.binary(OpCode::mul, a, b), body.offset(k.out, out));
}

// A body over [n, spatial..., channels] and the taps, and what it reads.
struct PoolBody {
  WindowBody body;
  std::size_t kept;
  std::vector<Expr> out;  // indices of the result
  ValueId element;        // of x, where `body.inside()`
  Expr position = 0;      // in x, over its spatial dimensions
};
PoolBody pool_body(const Graph& graph, const Pooling& k) {
  std::vector<Expr> sizes = k.out.sizes;
  const std::size_t kept = sizes.size(), spatial = k.windows.size();
  for (const Window& w : k.windows) sizes.push_back(w.taps);
  PoolBody p{WindowBody(graph, std::move(sizes)), kept, {}, {}};
  std::vector<Expr> in = {p.body.at(0)};
  for (std::size_t d = 0; d < kept; ++d) p.out.push_back(p.body.at(d));
  for (std::size_t d = 0; d < spatial; ++d) {
    in.push_back(p.body.element(k.windows[d], false, p.out[d + 1], p.body.at(kept + d), k.x.sizes[d + 1]));
    p.position = p.position * k.x.sizes[d + 1] + in.back();
  }
  in.push_back(p.out.back());
  p.element = p.body.element_of(k.x, in);
  return p;
}

Literal lowest(DType dtype) {
  const Scalar v = neutral(ReduceKind::max, dtype);
  return to_literal(dtype, v);
}

class PoolLoops {
 public:
  PoolLoops(Graph& graph, OpId id) : graph_(graph), id_(id), k_(*graph[id].as<Pooling>()) {}

  std::vector<OpId> run() {
    if (k_.kind == PoolKind::max || k_.kind == PoolKind::sum) {
      replace(values(k_.kind, k_.out));
      return {id_};
    }
    return k_.kind == PoolKind::average ? average() : arg_max();
  }

 private:
  Loops values(PoolKind kind, const TensorRef& out) {
    PoolBody p = pool_body(graph_, k_);
    const DType type = graph_[out.buffer].dtype;
    ValueId value = p.body.cast(p.element, type);
    const bool maximum = kind == PoolKind::max;
    if (maximum && p.body.inside())
      value = p.body.where(*p.body.inside(), value, p.body.constant(type, lowest(type)));
    return p.body.loops(p.kept, maximum ? ReduceKind::max : ReduceKind::sum, value,
                        p.body.offset(out, p.out));
  }

  // The number of taps of the window at each position that read inside of x.
  Expr taps_inside(std::span<const Expr> out) const {
    Expr count = 1;
    for (std::size_t d = 0; d < k_.windows.size(); ++d) {
      const Window& w = k_.windows[d];
      const Expr first = out[d + 1] * w.stride - w.pad;
      const Expr begin = max(ceil_div(-first, w.dilation), 0);
      const Expr end = min(ceil_div(k_.x.sizes[d + 1] - first, w.dilation), w.taps);
      count = count * max(end - begin, 0);
    }
    return count;
  }

  std::vector<OpId> average() {
    const DType type = graph_[k_.x.buffer].dtype, wide = is_float(type) ? accumulator_of(type) : type;
    const TensorRef sums = temporary(".sum", wide);
    const Loops sum = values(PoolKind::sum, sums);
    WindowBody body(graph_, k_.out.sizes);
    const std::vector<Expr> at = indices(body);
    const Expr count = simplify(taps_inside(at), body.sizes());
    const ValueId divisor = body.cast(body.index(count), wide);
    const ValueId mean = body.binary(OpCode::div, body.element_of(sums, at), divisor);
    const OpId finish = add(
        ".average", body.loops(at.size(), ReduceKind::sum, body.cast(mean, type), body.offset(k_.out, at)));
    replace(sum, sums.buffer);
    return {id_, finish};
  }

  // The first element that is the maximum, or not a number if that is.
  std::vector<OpId> arg_max() {
    const DType type = graph_[k_.x.buffer].dtype;
    const TensorRef maxima = temporary(".max", type), first = temporary(".first", DType::i64);
    const Loops maximum = values(PoolKind::max, maxima);
    PoolBody p = pool_body(graph_, k_);
    WindowBody& b = p.body;
    ValueId found = b.binary(OpCode::eq, p.element,
                             b.load(maxima.buffer, type, simplify(b.offset(maxima, p.out), b.sizes())));
    if (is_float(type)) found = b.binary(OpCode::logical_or, found, b.unary(OpCode::is_nan, p.element));
    if (b.inside()) found = b.binary(OpCode::logical_and, *b.inside(), found);
    constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();
    const ValueId nowhere = b.constant(DType::i64, kNowhere);
    const OpId search = add(".search",
                            b.loops(p.kept, ReduceKind::min, b.where(found, b.index(p.position), nowhere),
                                    b.offset(first, p.out)),
                            first.buffer);
    WindowBody last(graph_, k_.out.sizes);
    const std::vector<Expr> at = indices(last);
    const ValueId index = last.element_of(first, at);
    const ValueId missing = last.binary(OpCode::eq, index, last.constant(DType::i64, kNowhere));
    const ValueId result = last.where(missing, last.constant(DType::i64, std::int64_t{-1}), index);
    const OpId finish =
        add(".index", last.loops(at.size(), ReduceKind::sum, result, last.offset(k_.out, at)));
    replace(maximum, maxima.buffer);
    return {id_, search, finish};
  }

  static std::vector<Expr> indices(WindowBody& body) {
    std::vector<Expr> at;
    for (std::size_t d = 0; d < body.sizes().size(); ++d) at.push_back(body.at(d));
    return at;
  }
  TensorRef temporary(const char* suffix, DType type) {
    return whole(graph_, graph_.add_owned(graph_[k_.out.buffer].name + suffix, type, k_.out.sizes));
  }
  // A further operation, which defines the result of the pool or `output`.
  OpId add(const char* suffix, Loops loops, BufferId output = {}) {
    const std::vector<BufferId> outputs = output.valid() ? std::vector{output} : graph_[id_].outputs;
    return graph_.add_op(
        {graph_[id_].name + suffix, std::move(loops), outputs, graph_[id_].origins, std::nullopt});
  }
  // The pool becomes this loop, which defines `output` if the result is defined by a later one.
  void replace(Loops loops, BufferId output = {}) {
    Operation& op = graph_[id_];
    op.kernel = std::move(loops);
    op.cost.reset();
    if (!output.valid()) return;
    op.outputs = {output};
    graph_[output].producer = id_;
  }

  Graph& graph_;
  const OpId id_;
  const Pooling k_;
};

}  // namespace

bool is_window_kernel(const Kernel& kernel) {
  return std::holds_alternative<Convolution>(kernel) || std::holds_alternative<Pooling>(kernel);
}

std::vector<OpId> window_loops(Graph& graph, OpId id) {
  if (graph[id].as<Pooling>() != nullptr) return PoolLoops(graph, id).run();
  const Convolution& k = *graph[id].as<Convolution>();
  internal_check(!k.epilogue, "codegen: the epilogue of '{}' was not split off", graph[id].name);
  Loops loops = convolution_loops(graph, k);
  graph[id].kernel = std::move(loops);
  graph[id].cost.reset();
  return {id};
}

}  // namespace braid::codegen
