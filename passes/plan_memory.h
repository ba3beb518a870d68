// Places every activation in the arena and every communication buffer in the communication segment.
//
//   before   storage a [256 B], b [256 B], c [256 B]         steps:  0 writes a   1 a -> b   2 b -> c
//   after    arena 512 B (256 B where b may have a's bytes): a @0 [0..1]  b @256 [1..2]  c @0 [2..2]
//
// Contract
//   1. Sizes are upper bounds over all bounded dimensions; an activation without a bound is user error 545.
//   2. Lifetimes are in steps (top-level nodes) and cover every touch of the storage by any view, alias or
//      version. For collectives, inputs and outputs live until the wait, and memory that peers read or write
//      until the release. A collective that has no wait or release holds its memory until the end.
//   3. Two storages share bytes only if their lifetimes are disjoint, or by in-place reuse: the storage that
//      dies at a step and the one that is born there may have the same bytes if `ir::may_reuse_in_place`
//      proves that each element is read before it is overwritten. Communication memory is excluded from that.
//      There the operand and the result of a collective share their place if `ir::in_place_collectives`
//      proves that nothing else still needs the operand.
//   4. Buffers that live inside of one fused node get no memory (`ir::local_buffers`), nor do untouched
//      storages.
//   5. The communication segment is planned jointly over all groups from sizes and steps alone, so it is
//      the same on all ranks that run this program.
//   6. live_peak <= arena_bytes + comm_bytes; all arithmetic is checked. Deterministic.
//
// Placement: best fit, largest first, for programs of normal size; for very large ones (more than
// `exact_limit` storages) a best-fit sweep over time, O(n log n). Both are computed if affordable, and the
// smaller arena is kept. For the communication segment a further search runs if those two exceed the most
// bytes alive at once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct PlanMemory {
  static constexpr std::string_view kName = "plan_memory";
  static constexpr std::string_view kDescription =
      "places activations in one arena and communication buffers in one segment";

  bool in_place = true;
  std::int64_t in_place_collective_bytes = 32 * 1024;  // MemoryOptions
  std::int64_t arena_alignment = ir::kArenaAlignment;
  std::int64_t comm_alignment = ir::kCommAlignment;
  std::int64_t exact_limit = 4096;

  static std::vector<PassOption<PlanMemory>> options() {
    return {{"in_place", &PlanMemory::in_place, "let outputs take the bytes of inputs that die"},
            {"in_place_collective_bytes", &PlanMemory::in_place_collective_bytes,
             "from this size in bytes, the result of a collective takes the place of its operand"},
            {"arena_alignment", &PlanMemory::arena_alignment, "bytes"},
            {"comm_alignment", &PlanMemory::comm_alignment, "bytes"},
            {"exact_limit", &PlanMemory::exact_limit, "up to this many storages, place the largest first"}};
  }
  bool run(ir::Schedule& schedule);
  // Also user error 570 if the plan exceeds the context's memory cap.
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
