// Writes results as soon as they are known.
//
//   before                         after
//     k = gemm x, w                  k = gemm x, w
//     ... many layers                present_key = copy k     -> output
//     present_key = copy k           ... many layers
//
// Why: frontends name the outputs last, so their sources would live until the end of the step, once per
// layer, and be read long after they left the caches.
//
// Contract
//   1. Only top-level loops that write nothing but the caller's memory move, and only up: to right after the
//      last node on which they depend.
//   2. Everything else keeps its order, and so do nodes that move to one place.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct RaiseOutputs {
  static constexpr std::string_view kName = "raise_outputs";
  static constexpr std::string_view kDescription =
      "moves copies into outputs up to where their sources are known";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
