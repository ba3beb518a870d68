// Spells convolutions out as products of matrices, for targets whose matrix library has no convolution.
//
//   before                                       after
//     y = convolution x [n, h, w, c],              y.windows = pointwise [n, p, q, kh, kw, c] { load x[...] }
//                     w [1, kh, kw, c, m]          y [n, p, q, m] = gemm y.windows [n, p, q, kh*kw*c],
//                                                                        w.rows, transposed
//     y = convolution x, w    (one tap, in place)  y = gemm x, w.rows, transposed
//     y = convolution transposed x, w              y.taps [n, h, w, kh*kw*m] = gemm x, w.rows, transposed
//                                                  y = reduction sum [n, p, q, m] over [kh, kw] {
//                                                    load y.taps[...] }
//
//     y = convolution x, w    (the target's own)   y = convolution x, w.rows
//
// Groups are batch dimensions. Weights become rows of taps and channels (passes/pack_rows.h), like the
// windows: channels-last images are read, and windows are stored, in that order.
//
// Contract
//   1. Only products of f32, f16 and bf16. An epilogue moves to the product; transposed convolutions with an
//      epilogue stay.
//   2. A convolution stays if its sums have at most `min_terms` terms and a group has fewer than
//      `min_filters` filters (depthwise ones): making windows would be as much work as the sums.
//   3. Windows need memory: taps * channels elements for every position. If that may exceed `window_bytes`,
//      the first spatial dimension is divided into at most 64 parts. The parts store their windows in one
//      memory, one after the other, and their results in views of the result. Products with an epilogue, in
//      regions, or into memory of others are not divided; nor are the sums of transposed convolutions.
//   4. A convolution that a kernel of the target takes (`has_kernel`) stays; only its weights become rows.
// Runs after choose_layouts, for the order of channels, and before fusion, so that the loops are fused like
// any others.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct ExpandConvolutions {
  static constexpr std::string_view kName = "expand_convolutions";
  static constexpr std::string_view kDescription = "makes products of convolutions";

  std::int64_t min_terms = 64;
  std::int64_t min_filters = 8;
  std::int64_t window_bytes = std::int64_t{256} << 20;
  // Whether a kernel of the target computes the convolution once its weights are rows of taps and channels.
  // Null: none does.
  std::function<bool(const ir::Graph&, const ir::Convolution&)> has_kernel = {};

  static std::vector<PassOption<ExpandConvolutions>> options() {
    return {{"min_terms", &ExpandConvolutions::min_terms, "sums of so many terms or less stay if"},
            {"min_filters", &ExpandConvolutions::min_filters, "a group has fewer filters than this"},
            {"window_bytes", &ExpandConvolutions::window_bytes, "longer windows are stored part by part"}};
  }
  bool run(ir::Schedule& schedule) const;
};

}  // namespace braid::passes
