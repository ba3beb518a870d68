#include "frontend/ops/pairwise_coupling.h"

#include <array>

#include "frontend/ops/real.h"

namespace braid::frontend {
namespace {

constexpr double kAccuracy = 0.005;  // of a probability, times the number of classes
constexpr std::int64_t kMostSweeps = 100;

// Minimises p^T Q p over p >= 0 with sum 1, one p_t after another.
class Coupling {
 public:
  Coupling(ir::Lowering& l, const TensorBox& pairs, std::int64_t classes)
      : l_(l), rows_(pairs.sizes()[0]), classes_(classes), q_(l.realize(matrix(pairs))) {}

  TensorBox run() {
    const TensorBox first = l_.full({rows_, classes_}, DType::f32, 1 / static_cast<double>(classes_));
    const TensorBox yes = l_.generate({}, [](BodyBuilder& b, std::span<const Expr>) {
      return b.constant(DType::boolean, std::int64_t{1});
    });
    const auto sweep = [&](const std::vector<TensorBox>& carried) { return swept(carried[0], carried[1]); };
    return l_.repeat_while(yes, {first, l_.scalar(DType::i64, 1)}, sweep)[0];
  }

 private:
  using Row = std::array<Expr, 1>;
  using Cell = std::array<Expr, 2>;

  Real at(BodyBuilder& b, const TensorBox& x, std::span<const Expr> index) const {
    return {&b, l_.load(b, x, index)};
  }

  TensorBox matrix(const TensorBox& r) const {
    const std::vector<Expr> sizes = {rows_, classes_, classes_};
    const TensorBox squares = l_.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> i) {
      const Real x = at(b, r, std::array<Expr, 3>{i[0], i[2], i[1]});
      return (x * x).v;
    });
    const TensorBox diagonal = l_.reduce(squares, ir::ReduceKind::sum, {2}, false);
    return l_.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> i) {
      const Real product = at(b, r, i) * at(b, r, std::array<Expr, 3>{i[0], i[2], i[1]});
      const ValueId on_diagonal = b.binary(OpCode::eq, b.index(i[1]), b.index(i[2]));
      return select(on_diagonal, at(b, diagonal, i.first(2)), literal(product, 0) - product).v;
    });
  }

  ir::Lowering::Run swept(const TensorBox& p, const TensorBox& sweep) {
    TensorBox qp = l_.realize(l_.reduce(l_.generate({rows_, classes_, classes_},
                                                    [&](BodyBuilder& b, std::span<const Expr> i) {
                                                      return (at(b, q_, i) * at(b, p, Cell{i[0], i[2]})).v;
                                                    }),
                                        ir::ReduceKind::sum, {2}, false));
    TensorBox pqp = l_.realize(l_.reduce(binary(l_, OpCode::mul, p, qp), ir::ReduceKind::sum, {1}, false));
    const TensorBox errors = l_.generate({rows_, classes_}, [&](BodyBuilder& b, std::span<const Expr> i) {
      return apply(OpCode::abs, at(b, qp, i) - at(b, pqp, Row{i[0]})).v;
    });
    const TensorBox goes_on = l_.realize(l_.pointwise(
        {l_.reduce(errors, ir::ReduceKind::max, {1}, false)},
        [&](BodyBuilder& b, std::span<const ValueId> v) {
          const Real error{&b, v[0]};
          return b.cast(literal(error, kAccuracy / static_cast<double>(classes_)) <= error, DType::i64);
        }));
    TensorBox next = p;
    for (std::int64_t t = 0; t < classes_; ++t) move(next, qp, pqp, t);
    const TensorBox result = l_.generate({rows_, classes_}, [&](BodyBuilder& b, std::span<const Expr> i) {
      const ValueId moves = b.cast(l_.load(b, goes_on, Row{i[0]}), DType::boolean);
      return b.where(moves, l_.load(b, next, i), l_.load(b, p, i));
    });
    const TensorBox most = l_.reduce(goes_on, ir::ReduceKind::max, {0}, false);
    const TensorBox again = l_.pointwise({most, sweep}, [](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId some = b.binary(OpCode::lt, b.constant(DType::i64, std::int64_t{0}), v[0]);
      return b.binary(OpCode::logical_and, some,
                      b.binary(OpCode::lt, v[1], b.constant(DType::i64, kMostSweeps)));
    });
    const TensorBox count = l_.pointwise({sweep}, [](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::add, v[0], b.constant(DType::i64, std::int64_t{1}));
    });
    return {again, {result, count}, {}};
  }

  // Sets p_t to the best number, divides all by their sum, and keeps Q p and p^T Q p up to date.
  void move(TensorBox& p, TensorBox& qp, TensorBox& pqp, std::int64_t t) {
    const std::vector<Expr> row = {rows_}, rows = {rows_, classes_};
    const auto own = [&](BodyBuilder& b, const Expr& r) { return at(b, q_, std::array<Expr, 3>{r, t, t}); };
    const TensorBox step = l_.realize(l_.generate(row, [&](BodyBuilder& b, std::span<const Expr> i) {
      return ((at(b, pqp, i) - at(b, qp, Cell{i[0], t})) / own(b, i[0])).v;
    }));
    const TensorBox new_pqp = l_.realize(l_.generate(row, [&](BodyBuilder& b, std::span<const Expr> i) {
      const Real d = at(b, step, i), sum = d + 1;
      return ((at(b, pqp, i) + d * (d * own(b, i[0]) + at(b, qp, Cell{i[0], t}) * 2)) / sum / sum).v;
    }));
    const TensorBox new_qp = l_.realize(l_.generate(rows, [&](BodyBuilder& b, std::span<const Expr> i) {
      const Real d = at(b, step, Row{i[0]});
      return ((at(b, qp, i) + d * at(b, q_, std::array<Expr, 3>{i[0], t, i[1]})) / (d + 1)).v;
    }));
    const TensorBox old = p;
    p = l_.realize(l_.generate(rows, [&](BodyBuilder& b, std::span<const Expr> i) {
      const Real d = at(b, step, Row{i[0]}), x = at(b, old, i);
      const ValueId here = b.binary(OpCode::eq, b.index(i[1]), b.constant(DType::i64, t));
      return (select(here, x + d, x) / (d + 1)).v;
    }));
    pqp = new_pqp;
    qp = new_qp;
  }

  ir::Lowering& l_;
  Expr rows_;
  std::int64_t classes_;
  TensorBox q_;
};

}  // namespace

TensorBox coupled_probabilities(ir::Lowering& l, const TensorBox& pairs, std::int64_t classes) {
  return Coupling(l, pairs, classes).run();
}

}  // namespace braid::frontend
