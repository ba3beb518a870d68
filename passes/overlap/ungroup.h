// Takes groups apart once the order is final, and fuses inside of each what fuses.
//
//   before                                 after
//     grouped g_gather {                     fused fused_p { cast; copy_in }
//       cast; copy_in; gather                gather
//     }
//
// Belongs behind the last pass that changes the order and before plan_memory. Contract
//   1. Order and operations stay as they are, but for loops of one group that become one fused node, vertical
//      first, then horizontal, by the rules of fuse_vertical and fuse_horizontal; loops of different groups,
//      or of a group and its surroundings, do not join.
//   2. Order-only dependencies between groups end with them: what they asked for stands in the order.
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace braid::passes {

struct Ungroup {
  static constexpr std::string_view kName = "ungroup";
  static constexpr std::string_view kDescription = "takes groups apart and fuses inside of them";

  bool fuse = true;

  static std::vector<PassOption<Ungroup>> options() {
    return {{"fuse", &Ungroup::fuse, "join loops of one group"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
