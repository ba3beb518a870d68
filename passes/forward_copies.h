// Merges a copy of a copy into one that reads the original source.
//
//   before                                            after
//     t = copy gathered   [T, 2, 34]                    y[:, 0:34]  = copy gathered[0]
//     y = copy t[:, 0:67] [T, 67]                       y[:, 34:67] = copy gathered[1]
//
// Why: lowering makes a copy for each change of layout that no view can express, such as a gather along the
// last axis followed by a reshape; slicing the result adds another. Each copy is a pass over memory, and the
// tensor between them needs room: with a vocabulary of 50,257 tokens the row of a fused node exceeds shared
// memory.
//
// Contract
//   1. Both are top-level loops that only move elements. The first writes a whole tensor that is no result
//      and that only the second touches.
//   2. Nothing between them overwrites what the first reads. The second keeps its place.
//   3. The second reads every element by an index that is linear in the loop's indices. If one of its rows
//      lies in several rows of the first's source, it becomes one loop per source row, at most `max_parts`.
// Chains are followed.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct ForwardCopies {
  static constexpr std::string_view kName = "forward_copies";
  static constexpr std::string_view kDescription = "makes a copy of a copy read the original source";

  std::int64_t max_parts = 16;

  static std::vector<PassOption<ForwardCopies>> options() {
    return {{"max_parts", &ForwardCopies::max_parts, "most loops that one copy becomes"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
