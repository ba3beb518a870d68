// Computes a value once if a loop would compute it again at every point of an outer dimension on which it
// does not depend.
//
//   before                                          after
//     y = pointwise [64, 512, 32] {                   g = pointwise [32] { sigmoid(load %s[i0]) }
//       sigmoid(load %s[i2]) * load %x                y = pointwise [64, 512, 32] { load %g[i2] * load %x }
//     }
//
// A value that depends on the first dimensions only needs no loop of its own: code generators compute it
// outside of the inner loops.
//
// Contract
//   1. Only pointwise loops change, and only values that cost at least `min_flops` per point, with the values
//      from which they are computed.
//   2. The new loop stands directly before its reader, and its result has the sizes of the dimensions on
//      which the value depends.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct HoistInvariants {
  static constexpr std::string_view kName = "hoist_invariants";
  static constexpr std::string_view kDescription =
      "computes what an inner dimension decides once, not at every outer point";

  std::int64_t min_flops = 10;

  static std::vector<PassOption<HoistInvariants>> options() {
    return {{"min_flops", &HoistInvariants::min_flops, "cheaper values are computed again"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
