// Forests as the extern kernel `tree_ensemble` takes them (runtime/tree_ensemble.h): every test becomes one
// or more comparisons of an integer key with a cut.
#pragma once

#include "frontend/ops/forest.h"

namespace braid::frontend {

enum class ForestAggregate : std::uint8_t { sum, average, min, max };

// A column of the keys: a feature, and where a missing value stands.
struct KeyColumn {
  std::int64_t feature = 0;
  bool missing_first = false;  // before all numbers; otherwise after them
};

struct ForestLayout {
  std::vector<std::int32_t> nodes, trees;
  std::vector<double> weights;
  std::vector<KeyColumn> columns;  // at least one
};

// Integers have no missing values, so that `may_be_missing` is false. Throws BR0119 if the
// words do not fit 31 bits.
ForestLayout lay_out_forest(OpContext& c, const Forest& forest, ForestAggregate aggregate,
                            bool may_be_missing);

// The key of a number: integers of the width of `real` in the order of the numbers, 0 for both zeros.
std::int64_t ordered_key(DType real, double number);

}  // namespace braid::frontend
