// Reduces loop dimensions: drops those of size 1 and merges neighbours that all index expressions traverse as
// one.
//
//   before   pointwise [B, S, 768]  load x[768*S*i0 + 768*i1 + i2]  ->  store at 768*S*i0 + 768*i1 + i2
//   after    pointwise [768*B*S]    load x[i0]                      ->  store at i0
//
// Contract
//   1. The order and number of points stay; no index expression gains a division.
//   2. In a fused node the outer dimensions of all members change in the same way, so they stay common. Inner
//      dimensions of one extent are merged in all members that have them, or in none.
//   3. A reduction keeps at least one reduced dimension.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct MergeLoops {
  static constexpr std::string_view kName = "merge_loops";
  static constexpr std::string_view kDescription = "merges loop dimensions that are contiguous in memory";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
