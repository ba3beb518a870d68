// Sums that correct for zero points in convolutions of bytes. Elements outside of the image are 0, not the
// zero point, so these sums depend on the position where windows reach over an edge.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// A tensor of sums in i32, and the element that belongs to the indices of a product's result.
struct Sums {
  ir::BufferId buffer;
  ir::Expr index = 0;
};

// Classes of a convolution's positions by the taps that lie inside of the image: positions at the beginning
// of a dimension, positions where all taps are inside, and positions at its end.
struct TapClasses {
  std::vector<std::vector<std::vector<bool>>> inside;  // [dimension][class][tap]
  std::vector<ir::Expr> at;                            // the class of the result's indices
};
// nullopt if a position may lack taps at both ends, or where windows end depends on dynamic sizes.
std::optional<TapClasses> tap_classes(const ir::Graph& graph, const ir::Convolution& k);

// The sums of constant weights over the taps of each class, by filter.
std::optional<Sums> tap_sums(ir::Graph& graph, const TapClasses& classes, const ir::TensorRef& weights,
                             const ir::TensorRef& out);
// Returns the number of elements that the taps of each class read, counting all channels of a group.
Sums tap_counts(ir::Graph& graph, const TapClasses& classes, const ir::TensorRef& weights);

// The sums of the elements that each window reads from a group's channels of `a`, and the convolution with
// ones that computes them. The sizes of `k`'s weights are known.
struct WindowSums {
  Sums sums;
  ir::Convolution kernel;
};
WindowSums window_sums(ir::Graph& graph, const ir::Convolution& k, const ir::TensorRef& a);

}  // namespace braid::passes
