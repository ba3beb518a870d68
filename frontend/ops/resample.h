// How an image is resized: every axis is resampled alone, as weighted sums of neighbours ("taps"). Positions
// and weights are tables computed while compiling where the sizes are known and not too large, and otherwise
// part of the loop.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

enum class ResizeMode { nearest, linear, cubic };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  std::string coordinates;   // coordinate_transformation_mode
  std::string nearest_mode;  // `simple` is that of version 10
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  double extrapolation = 0;
};

// One axis that changes.
struct ResizeAxis {
  std::size_t index;
  Expr in, out;
  std::optional<double> scale;  // nullopt: out / in
  double roi_start = 0, roi_end = 1;

  bool is_static() const { return in.is_constant() && out.is_constant(); }
  double known_scale() const {
    return scale ? *scale : static_cast<double>(out.constant()) / static_cast<double>(in.constant());
  }
};

// Returns input 0 with these axes resized, which must be distinct. Throws BR0114 for an axis without elements
// that must get some, BR0119 for antialiasing of an axis whose sizes depend on a dimension.
TensorBox resized(OpContext& c, const ResizeOptions& o, const std::vector<ResizeAxis>& axes);

}  // namespace braid::frontend
