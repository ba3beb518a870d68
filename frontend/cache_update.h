// Caches into which a step writes a few rows at positions that are known only at run time. In the definitions
// of TensorScatter and of the operators of com.microsoft, every element of the result is a new or an old one.
// In the memory of the old cache the old ones are there already, so only the new rows have to be written:
//
//   present[b, p] = where(0 <= p - f[b] && p - f[b] < n, rows[b, p - f[b]], past[b, p])   a loop over all p
//
//   f = pointwise [b] {...}   present = extern "write_rows" reads(past, rows, f)  (runtime/host/write_rows.h)
//
// `f` is checked to be at most the number of positions minus n, or p - f is taken modulo that number (a
// ring). If the cache grows, past is read where p < f and p < its size, and elements that are neither there
// nor new are 0. The kernel writes these zeros; there are none if the new rows are the last ones.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace braid::frontend {

// If the operation is such an update, rewrites it and returns the new operation that computes `f`, which must
// come before it. Its result must lie in the memory of the old cache.
std::optional<ir::OpId> write_rows_only(ir::Graph& graph, ir::OpId op);

}  // namespace braid::frontend
