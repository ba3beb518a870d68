// Takes groups apart once the order is final, and fuses loops within each.
//
//   before                                 after
//     grouped g_gather {                     fused fused_p { cast; copy_in }
//       cast; copy_in; gather                gather
//     }
//
// Belongs after the last pass that changes the order and before plan_memory.
//
// Contract
//   1. Order and operations stay, except that loops of one group become fused nodes, vertically first, then
//      horizontally, by the rules of fuse_vertical and fuse_horizontal. Loops of different groups, or of a
//      group and its surroundings, are not fused.
//   2. Order-only dependencies between groups end with the groups: the order already obeys them.
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace braid::passes {

struct Ungroup {
  static constexpr std::string_view kName = "ungroup";
  static constexpr std::string_view kDescription = "takes groups apart and fuses loops within each";

  bool fuse = true;

  static std::vector<PassOption<Ungroup>> options() {
    return {{"fuse", &Ungroup::fuse, "fuse loops of one group"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
