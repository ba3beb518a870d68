// The kernel call that evaluates a forest, and whether each target of each row has any weight.
#pragma once

#include "frontend/ops/forest_layout.h"
#include "frontend/ops/real.h"

namespace braid::frontend {

// Sums, averages or extremes of the leaves that rows reach, as a loop reads them.
class ForestSums {
 public:
  // Evaluates the forest on input 0. Rows in which a target may have no weight also count its weights if
  // `tells_missing`.
  ForestSums(OpContext& c, Forest forest, ForestAggregate aggregate, bool tells_missing);

  DType real() const { return real_; }
  const Expr& rows() const { return rows_; }
  std::int64_t targets() const { return targets_; }

  // The value of a target; targets without a weight are 0.
  Real value(BodyBuilder& b, const Expr& row, std::int64_t target) const;
  TensorBox all() const;  // [rows, targets]

  // Whether rows have a weight for the target.
  enum class Presence : std::uint8_t { never, sometimes, always };
  Presence presence(std::int64_t target) const { return presence_[static_cast<std::size_t>(target)]; }
  ValueId present(BodyBuilder& b, const Expr& row, std::int64_t target) const;
  // `values` [rows, targets], and `otherwise` where a row has no weight.
  TensorBox where_present(const TensorBox& values, double otherwise) const;

 private:
  Real load(BodyBuilder& b, const Expr& row, std::int64_t column) const;

  ir::Lowering& l_;
  DType real_;
  Expr rows_ = 0;
  std::int64_t targets_ = 0;
  double divisor_ = 1;
  std::vector<Presence> presence_;
  std::vector<std::int64_t> counts_;  // by target: the column that counts its weights, or -1
  TensorBox sums_;
};

}  // namespace braid::frontend
