// Amounts in ranges of memory rows.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>

#include "solver/ids.h"

namespace braid::solver {

// Consecutive memory rows, from `begin` up to and without `end`.
struct RowRange {
  RowId begin{0};
  RowId end{0};
  bool has(RowId row) const { return begin <= row && row < end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Sums of amounts that are in ranges of rows.
class RowSums {
 public:
  explicit RowSums(IdRange<RowId> rows) : steps_({*rows.begin(), *rows.end() + 1}) {}
  void add(const RowRange& rows, std::int64_t amount) {
    steps_[rows.begin] += amount;
    steps_[rows.end] -= amount;
  }
  // The sum in each row; ends the additions.
  IdVector<RowId, std::int64_t> take() {
    steps_.pop_back();
    std::partial_sum(steps_.begin(), steps_.end(), steps_.begin());
    return std::move(steps_);
  }

 private:
  IdVector<RowId, std::int64_t> steps_;  // from row to row
};

// The sum of the amounts of all rows before each row, and before the end.
inline IdVector<RowId, std::int64_t> sums_before(const IdVector<RowId, std::int64_t>& amounts) {
  IdVector<RowId, std::int64_t> sums = {0};
  for (const std::int64_t amount : amounts) sums.push_back(sums.back() + amount);
  return sums;
}
inline std::int64_t sum_in(const RowRange& rows, const IdVector<RowId, std::int64_t>& before) {
  return before[rows.end] - before[rows.begin];
}

}  // namespace braid::solver
