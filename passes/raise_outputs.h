// Results are written as soon as they are known.
//
//   before                         after
//     k = gemm x, w                  k = gemm x, w
//     ... many layers                present_key = copy k     -> output
//     present_key = copy k           ... many layers
//
// Why: frontends name the outputs last, so what they are copied from would live until the end of the step,
// once per layer, and be read when it has long left the caches.
//
// Contract
//   1. Only top-level loops move, only those that write nothing but the caller's memory, and only up: to
//      right behind the last node that they depend on.
//   2. Everything else keeps its order. Those that move to one place keep theirs.
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
