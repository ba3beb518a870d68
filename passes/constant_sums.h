// Constant matrices of 8-bit integers at compile time.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// The sums of a constant's elements over dimensions, i32 and row-major over `kept`, for every rank that has its own data.
// nullopt if it is no constant, or its sizes or contents are unknown.
std::optional<ir::ConstantData> constant_sums(const ir::Graph& graph, const ir::TensorRef& bytes,
                                              std::size_t along, const std::vector<std::size_t>& kept);

// The elements of a constant u8 tensor minus a constant zero point, as i8 and row-major, with one element for dimensions of
// stride 0. `zero` is a body over the tensor's indices, which depends neither on these nor on the dimensions `along`. nullopt if something
// is unknown or does not fit.
std::optional<ir::ConstantData> constant_differences(const ir::Graph& graph, const ir::TensorRef& bytes,
                                                     const ir::LoopBody& zero,
                                                     const std::vector<std::size_t>& along);

// For constant weights [groups, taps..., c, m] of a convolution, and the taps that are used in each class of positions of each
// spatial dimension (inside[d][class][tap]): the sums over these taps and over c, i32 [classes..., groups * m].
std::optional<ir::ConstantData> constant_tap_sums(const ir::Graph& graph, const ir::TensorRef& weights,
                                                  const std::vector<std::vector<std::vector<bool>>>& inside);

}  // namespace braid::passes
