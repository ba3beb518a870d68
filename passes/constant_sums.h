// Constant matrices of 8-bit integers at compile time.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// Returns the sums of a constant's elements over dimension `along`, as i32 and row-major over `kept`, for
// every rank with data of its own. Returns nullopt if `bytes` is no constant, or if its sizes or contents are
// unknown.
std::optional<ir::ConstantData> constant_sums(const ir::Graph& graph, const ir::TensorRef& bytes,
                                              std::size_t along, const std::vector<std::size_t>& kept);

// Returns the elements of a constant u8 tensor minus a constant zero point, as i8 and row-major. Dimensions
// of stride 0 have one element. `zero` is a body over the tensor's indices that depends neither on the
// indices of stride-0 dimensions nor on the dimensions `along`. Returns nullopt if something is unknown or
// does not fit.
std::optional<ir::ConstantData> constant_differences(const ir::Graph& graph, const ir::TensorRef& bytes,
                                                     const ir::LoopBody& zero,
                                                     const std::vector<std::size_t>& along);

// Returns the sums of constant weights [groups, taps..., c, m] over c and over the taps of each class, as i32
// [classes..., groups * m]. `inside`[d][class][tap] tells which taps a class of positions uses in spatial
// dimension d.
std::optional<ir::ConstantData> constant_tap_sums(const ir::Graph& graph, const ir::TensorRef& weights,
                                                  const std::vector<std::vector<std::vector<bool>>>& inside);

}  // namespace braid::passes
