// Fuses independent loops over the same space that read the same buffer, so that it is read once. Also fuses
// loops that are so small that each would take less time than its launch.
//
//   before                         after
//     a = pointwise f(x)             fused { a = pointwise f(x)
//     b = pointwise g(x)                     b = pointwise g(x) }
//
// Contract
//   1. Neither depends on the other, directly or through others; only one of them moves.
//   2. The fused node is legal (ir/fused_loops.h) over the outer space that each loop had: no parallelism is
//      lost. Nodes of at most `small_points` iterations in all (cheap_iterations in fusion_graph.h) may have
//      any spaces and buffers.
//   3. A node has at most `max_members` loops and `max_buffers` different buffers (registers, cache lines,
//      streams).
//   4. `keep_prologues`: a loop that prepares the input of a collective stays alone. Fused with unrelated
//      work it would start later, and its copy would delay a transfer that may be hidden. Loops that prepare
//      parts of one input may be one node.
//   5. `keep_overlap`: nothing moves past the wait of a collective.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/id_vector.h"
#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct FuseHorizontal {
  static constexpr std::string_view kName = "fuse_horizontal";
  static constexpr std::string_view kDescription =
      "fuses independent loops over one space that read the same buffer";

  std::int64_t max_members = 8;
  std::int64_t max_buffers = 16;
  std::int64_t small_points = 8192;
  bool keep_prologues = true;
  bool keep_overlap = true;

  static std::vector<PassOption<FuseHorizontal>> options() {
    return {{"max_members", &FuseHorizontal::max_members, "loops per node"},
            {"max_buffers", &FuseHorizontal::max_buffers, "different buffers per node"},
            {"small_points", &FuseHorizontal::small_points,
             "iterations of a node that only its launch makes slow"},
            {"keep_prologues", &FuseHorizontal::keep_prologues, "leave loops before collectives alone"},
            {"keep_overlap", &FuseHorizontal::keep_overlap, "move nothing behind the wait of a collective"}};
  }
  bool run(ir::Schedule& schedule) { return run(schedule, {}); }
  // Loops are fused only within one region: a number per operation of the graph; empty: one region.
  bool run(ir::Schedule& schedule, ir::IdSpan<ir::OpId, const int> region_of_op);
};

}  // namespace braid::passes
