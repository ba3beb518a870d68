// A schedule in terms of what a target's kernels can do. What they leave of an epilogue becomes a loop of its
// own, and what they need memory for beside their operands becomes buffers of the graph, so that it is
// scheduled, planned and held to the memory cap like all others: no target adds bytes to a plan.
//
//   before                                            after
//     %y : f32 = gemm %a, %b epilogue {                 %y.sum : f32 = gemm %a, %b epilogue { ... } as relu
//       ... } as relu                                   %y mutates %y.sum = pointwise { sin of load %y.sum }
//     %z : f16 = gemm %a, %b epilogue { ... }           %z.sum : f32 = gemm %a, %b
//                                                       %z : f16 = pointwise { ... load %z.sum }
//     fused f { %t = ...; %u = ... }                    %t = ...   %u = ...
//                                                         (where no kernel can hold the rows)
//     output %y                                         %y.result = pointwise { load %y }   output %y.result
//       (column-major, or a part of an input)
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "ir/fused_loops.h"
#include "ir/schedule.h"

namespace braid::codegen {

// Of a product's kernel that evaluates any epilogue as it is written.
inline constexpr std::size_t kAnyEpilogue = std::numeric_limits<std::size_t>::max();

struct KernelLimits {
  // How many of the product's named steps (Gemm::post_ops) its kernel applies before it stores the result, or
  // kAnyEpilogue. Only asked about products with an epilogue.
  std::function<std::size_t(const ir::Graph&, const ir::Gemm&)> post_ops;
  // Does one kernel compute the fused node? Null: always.
  std::function<bool(const ir::Graph&, const ir::FusedLoops&)> one_kernel;
};

// True if something changed; drops the plan then. Nodes keep their order, what comes from one stays together.
// Names the steps of epilogues that have no names yet. A second call changes nothing.
//
// The product then stores the value behind the last step that its kernel applies, in the result's memory
// where that has the value's type and no load of the epilogue reads it, and otherwise in memory of its own.
bool legalise(ir::Schedule& schedule, const KernelLimits& limits);

}  // namespace braid::codegen
