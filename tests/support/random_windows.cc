#include "tests/support/random_windows.h"

#include <vector>

#include "ir/lowering.h"
#include "tests/support/random_choice.h"
#include "tests/support/random_tensors.h"

namespace braid::test {
namespace {

using namespace ir;

class Images {
 public:
  Images(std::uint64_t seed, DType dtype) : random_(seed), dtype_(dtype), l_(graph_) {}

  RandomWindows make() {
    const int spatial = random_.from(1, 3);
    std::vector<Expr> sizes = {size("n", 1, 3), random_.from(1, 6)};
    for (int d = 0; d < spatial; ++d) sizes.push_back(d == 0 ? size("h", 5, 12) : Expr(random_.from(4, 9)));
    TensorBox x = l_.input("x", dtype_, sizes);
    std::vector<TensorBox> values = {x};
    for (int steps = random_.from(1, 5); steps > 0; --steps) {
      x = step(x, values);
      values.push_back(x);
    }
    l_.output("y", x);
    if (random_.below(3) == 0 && values.size() > 2) l_.output("z", values[values.size() / 2]);
    RandomWindows out;
    out.schedule = finished(l_, graph_);
    out.dims = dims_;
    return out;
  }

 private:
  Expr size(const char* name, int low, int high) {
    if (random_.flip()) return random_.from(low, high);
    dims_[name] = random_.from(low, high);
    return graph_.add_dim(name, {low, high});
  }

  TensorBox step(const TensorBox& x, const std::vector<TensorBox>& values) {
    switch (random_.below(7)) {
      case 0:
      case 1:
        return convolution(x);
      case 6:
        return residual(x);
      case 2:
        return pool(x);
      case 3: {
        // The channels twice, or with a part of themselves.
        if (!x.sizes()[1].is_constant() || x.sizes()[1].constant() > 8) return elementwise(x, values);
        return l_.concat({x, random_.flip() ? x : l_.slice(x, 1, 0, 1)}, 1);
      }
      default:
        return elementwise(x, values);
    }
  }

  // A convolution that keeps the sizes, with its bias and its operand added: it becomes an epilogue of three
  // steps.
  TensorBox residual(const TensorBox& x) {
    std::vector<Window> windows;
    std::vector<Expr> spatial, weights = {1};
    for (std::size_t d = 2; d < x.rank(); ++d) {
      windows.push_back({3, 1, 1, 1});
      spatial.push_back(x.sizes()[d]);
      weights.emplace_back(3);
    }
    weights.insert(weights.end(), {x.sizes()[1], x.sizes()[1]});
    const TensorBox w = l_.input("w" + std::to_string(inputs_++), dtype_, weights);
    TensorBox bias = l_.input("b" + std::to_string(inputs_++), dtype_, {x.sizes()[1]});
    for (std::size_t d = 2; d < x.rank(); ++d) bias = l_.unsqueeze(bias, static_cast<int>(bias.rank()));
    const auto sum = [&](const TensorBox& a, const TensorBox& b) {
      return l_.realize(l_.pointwise({a, b}, [](BodyBuilder& body, std::span<const ValueId> v) {
        return body.binary(OpCode::add, v[0], v[1]);
      }));
    };
    const TensorBox y = first(l_.convolution(last(x), w, windows, spatial));
    const TensorBox z = sum(sum(y.dtype() == dtype_ ? y : l_.cast(y, dtype_), bias), x);
    return l_.realize(l_.pointwise({z}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::max, v[0], b.constant_of(dtype_, 0));
    }));
  }

  TensorBox elementwise(const TensorBox& x, const std::vector<TensorBox>& values) {
    TensorBox other = x;
    for (const TensorBox& v : values) {
      if (v.sizes() == x.sizes() && random_.flip()) other = v;
    }
    const bool per_channel = random_.below(3) == 0;
    if (per_channel) {
      other = l_.input("b" + std::to_string(inputs_++), dtype_, {x.sizes()[1]});
      for (std::size_t d = 2; d < x.rank(); ++d) other = l_.unsqueeze(other, static_cast<int>(other.rank()));
    }
    const OpCode code = random_.flip() ? OpCode::add : OpCode::max;
    const TensorBox y = l_.pointwise({x, other}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId both = b.binary(code, v[0], v[1]);
      return random_.flip() ? both : b.binary(OpCode::max, both, b.constant_of(dtype_, 0));
    });
    return random_.flip() ? l_.realize(y) : y;
  }

  TensorBox last(TensorBox x) {
    std::vector<int> order = {0};
    for (int d = 2; d < static_cast<int>(x.rank()); ++d) order.push_back(d);
    order.push_back(1);
    return l_.permute(std::move(x), order);
  }
  TensorBox first(TensorBox x) {
    const int rank = static_cast<int>(x.rank());
    std::vector<int> order = {0, rank - 1};
    for (int d = 1; d + 1 < rank; ++d) order.push_back(d);
    return l_.permute(std::move(x), order);
  }

  // A window that fits into the smallest size.
  struct Fitted {
    Window window;
    Expr size = 0;
  };
  Fitted fitted(Expr size, bool pool) {
    Fitted f;
    const std::int64_t least = bounds(size).min;
    f.window.taps = random_.from(1, 3);
    f.window.stride = random_.from(1, 3);
    f.window.dilation = random_.below(3) == 0 ? 2 : 1;
    const int most = static_cast<int>(pool ? f.window.taps - 1 : f.window.taps);
    const int before = random_.from(0, most), after = random_.from(0, most);
    std::int64_t extent = (f.window.taps - 1) * f.window.dilation + 1;
    if (extent > least + before + after) {
      f.window.taps = 1;
      extent = 1;
    }
    f.window.pad = pool && f.window.taps == 1 ? 0 : before;
    f.size =
        floor_div(size + f.window.pad + (pool && f.window.taps == 1 ? 0 : after) - extent, f.window.stride) +
        1;
    return f;
  }

  TensorBox convolution(const TensorBox& x) {
    const bool transposed = random_.below(4) == 0;
    const std::int64_t channels = x.sizes()[1].constant();
    const std::int64_t groups = random_.below(3) == 0                 ? channels
                                : channels % 2 == 0 && random_.flip() ? 2
                                                                      : 1;
    const std::int64_t filters = random_.from(1, 4);
    std::vector<Window> windows;
    std::vector<Expr> spatial, weights = {groups};
    for (std::size_t d = 2; d < x.rank(); ++d) {
      Fitted f = fitted(x.sizes()[d], false);
      if (transposed) {
        const std::int64_t extent = (f.window.taps - 1) * f.window.dilation + 1;
        f.window.pad = random_.below(static_cast<int>(f.window.taps));
        f.size = (x.sizes()[d] - 1) * f.window.stride + extent - f.window.pad;
      }
      windows.push_back(f.window);
      spatial.push_back(f.size);
      weights.emplace_back(f.window.taps);
    }
    weights.insert(weights.end(), {channels / groups, filters});
    const TensorBox w = l_.input("w" + std::to_string(inputs_++), dtype_, weights);
    TensorBox y = l_.convolution(last(x), w, windows, spatial, transposed);
    return first(y.dtype() == dtype_ ? y : l_.cast(y, dtype_));
  }

  TensorBox pool(const TensorBox& x) {
    std::vector<Window> windows;
    std::vector<Expr> spatial;
    for (std::size_t d = 2; d < x.rank(); ++d) {
      const Fitted f = fitted(x.sizes()[d], true);
      windows.push_back(f.window);
      spatial.push_back(f.size);
    }
    const PoolKind kinds[] = {PoolKind::max, PoolKind::arg_max, PoolKind::sum, PoolKind::average};
    const PoolKind kind = kinds[random_.below(is_float(dtype_) ? 4 : 3)];
    const TensorBox y = first(l_.pool(kind, last(x), windows, spatial));
    return y.dtype() == dtype_ ? y : l_.cast(y, dtype_);
  }

  Random random_;
  DType dtype_;
  Graph graph_;
  Lowering l_;
  std::map<std::string, std::int64_t> dims_;
  int inputs_ = 0;
};

}  // namespace

RandomWindows random_windows(std::uint64_t seed, DType dtype) { return Images(seed, dtype).make(); }

RandomWindows random_recurrence(std::uint64_t seed, DType dtype, bool wide) {
  Random random(seed);
  Graph graph;
  Lowering l(graph);
  RandomWindows out;
  const auto size = [&](const char* name, int low, int high) -> Expr {
    if (random.flip()) return random.from(low, high);
    out.dims[name] = random.from(low, high);
    return graph.add_dim(name, {low, high});
  };
  const Expr steps = size("t", 1, 6), batch = size("n", 1, wide ? 18 : 4);
  const std::int64_t hidden = wide ? 64 * random.from(1, 4) : random.from(1, 20);
  Recurrence layer;
  const CellKind kinds[] = {CellKind::rnn, CellKind::gru, CellKind::lstm};
  layer.cell = kinds[random.below(3)];
  const std::int64_t gates = layer.cell == CellKind::lstm ? 4 : layer.cell == CellKind::gru ? 3 : 1;
  const bool lstm = layer.cell == CellKind::lstm;
  layer.reverse = random.flip();
  layer.linear_before_reset = layer.cell == CellKind::gru && random.flip();
  layer.coupled = lstm && random.below(4) == 0;
  if (random.below(4) == 0) layer.clip = 0.03;  // within what the sums reach
  const DType inside = dtype == DType::f64 ? DType::f64 : DType::f32;
  for (std::size_t k = 0; k < (gates == 1 ? 1u : lstm ? 3u : 2u); ++k) {
    BodyBuilder body(l.pool());
    const OpCode codes[] = {OpCode::tanh, OpCode::sigmoid, OpCode::abs};
    layer.activations.push_back(body.finish(body.unary(codes[random.below(3)], body.acc(inside))));
  }
  const auto input = [&](const char* name, std::vector<Expr> sizes) {
    return l.input(name, dtype, std::move(sizes));
  };
  // Recurrent sums stay small, so that rounding does not grow from step to step.
  const auto small = [&](TensorBox x) {
    return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::mul, v[0], b.constant_of(dtype, 1.0 / 64));
    });
  };
  Lowering::RecurrenceOperands operands;
  operands.gates = small(input("gates", {steps, batch, hidden * gates}));
  if (wide) {
    std::vector<float> values = random_tensor(dtype, {hidden * gates, hidden}, seed).values<float>();
    for (float& x : values) x /= 256;
    const TensorBox constant =
        l.constant("weights", dtype, {hidden * gates, hidden},
                   own_bytes(make_tensor(dtype, {hidden * gates, hidden}, values).bytes));
    operands.weights = l.permute(constant, {1, 0});
  } else {
    operands.weights = small(random.flip() ? input("weights", {hidden, hidden * gates})
                                           : l.permute(input("weights", {hidden * gates, hidden}), {1, 0}));
  }
  operands.initial_h = small(input("h", {batch, hidden}));
  if (random.flip()) operands.bias = small(input("bias", {hidden * gates}));
  if (lstm && random.flip()) operands.initial_c = small(input("c", {batch, hidden}));
  if (lstm && random.flip()) operands.peepholes = small(input("peepholes", {3, hidden}));
  if (random.below(3) == 0) {
    // Within [0, steps].
    const TensorBox given = l.input("lengths", DType::i32, {batch});
    operands.lengths = l.pointwise({given}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::mod, b.unary(OpCode::abs, v[0]), b.index(steps + 1, DType::i32));
    });
  }
  const std::vector<TensorBox> results = l.recurrence(std::move(layer), operands);
  const char* names[] = {"y", "last_h", "last_c"};
  for (std::size_t k = 0; k < results.size(); ++k) l.output(names[k], results[k]);
  out.schedule = finished(l, graph);
  return out;
}

}  // namespace braid::test
