// Det: determinants of small matrices, expanded along their rows in f64. Elimination would need loops that
// depend on the data (pivots), which the IR lacks.
#include <bit>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr std::int64_t kLargest = 6;  // the expansion has n * 2^(n - 1) products

void lower_det(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  const std::size_t rank = x.rank();
  if (rank < 2) c.fail(errors::kShapeMismatch, "the input must be a matrix or a stack of matrices");
  const Expr rows = x.sizes()[rank - 2], columns = x.sizes()[rank - 1];
  if (!rows.is_constant() || !columns.is_constant()) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("the size {} x {} of the matrices depends on a dimension", to_string(rows),
                       to_string(columns)),
           "fix the dimension to one value");
  }
  if (!(rows == columns))
    c.fail(errors::kShapeMismatch,
           fmt::format("the matrices have {} rows and {} columns", rows.constant(), columns.constant()));
  const std::int64_t n = rows.constant();
  if (n > kLargest) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("the matrices have {} rows; determinants of up to {} are supported", n, kLargest));
  }
  const std::vector<Expr> sizes(x.sizes().begin(), x.sizes().end() - 2);
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    // minors[set]: the determinant of the columns in `set` in as many of the first rows.
    std::vector<ValueId> minors{b.constant_of(DType::f64, 1)};
    for (unsigned set = 1; set < 1u << n; ++set) {
      const int row = std::popcount(set) - 1;
      std::optional<ValueId> sum;
      int position = 0;
      for (unsigned column = 0; column < static_cast<unsigned>(n); ++column) {
        if (!(set >> column & 1u)) continue;
        std::vector<Expr> source(at.begin(), at.end());
        source.emplace_back(row);
        source.emplace_back(static_cast<std::int64_t>(column));
        const ValueId element = b.cast(l.load(b, x, source), DType::f64);
        const ValueId product = b.binary(OpCode::mul, element, minors[set & ~(1u << column)]);
        const bool minus = (row + position++) % 2 != 0;
        sum = sum     ? b.binary(minus ? OpCode::sub : OpCode::add, *sum, product)
              : minus ? b.unary(OpCode::neg, product)
                      : product;
      }
      minors.push_back(*sum);
    }
    return b.cast(minors.back(), x.dtype());
  }));
}

}  // namespace

std::span<const OpSpec> det_ops() {
  static const OpSpec ops[] = {
      {"", "Det", 11, kNewestOpset, kFloats, lower_det, work::determinant(), rule::kDeterminant, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
