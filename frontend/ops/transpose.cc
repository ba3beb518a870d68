// Transpose: a view.
#include <algorithm>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_transpose(OpContext& c) {
  const int rank = c.rank(0);
  std::vector<int> order;
  if (const auto given = c.ints_attribute("perm")) {
    order.assign(given->begin(), given->end());
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != axes_from(0, rank)) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'perm' is [{}], expected a permutation of 0 to {}",
                         fmt::join(*given, ", "), rank - 1));
    }
  } else {
    for (int k = rank; k-- > 0;) order.push_back(k);
  }
  if (rank == 2 && order == std::vector<int>{1, 0} && c.value(0).quantised) {
    QuantisedMatrix matrix = *c.value(0).quantised;
    matrix.transposed = !matrix.transposed;
    c.set_quantised(std::move(matrix));
  }
  c.set_output(0, c.lowering().permute(c.input(0), order));
}

}  // namespace

std::span<const OpSpec> transpose_ops() {
  static const OpSpec ops[] = {
      {"", "Transpose", 1, kNewestOpset, kAllTypes | kStorage, lower_transpose, work::reorder(),
       rule::kTranspose, kNoState, size_rule::kTranspose},
  };
  return ops;
}

}  // namespace braid::frontend
