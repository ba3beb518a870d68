// A schedule in terms of what a target's kernels can do. What they need memory for beside their operands
// becomes buffers of the graph, so that it is scheduled, planned and held to the memory cap like all others:
// no target adds bytes to a plan.
//
//   before                                            after
//     %y : f16 = gemm %a, %b epilogue { ... acc }       %y.sum : f32 = gemm %a, %b
//                                                       %y : f16 = pointwise { ... load %y.sum }
//     fused f { %t = ...; %y = ... }                    %t = ...   %y = ...
//                                                         (where no kernel can hold the rows)
#pragma once

#include <functional>
#include <optional>

#include "ir/fused_loops.h"
#include "ir/schedule.h"

namespace braid::codegen {

struct KernelLimits {
  // The type of the product's sums where they need memory of their own before the epilogue; nothing where the
  // product's kernels finish them or keep them in the result's memory.
  std::function<std::optional<ir::DType>(const ir::Graph&, const ir::Gemm&)> separate_sum;
  // Does one kernel compute the fused node? Null: always.
  std::function<bool(const ir::Graph&, const ir::FusedLoops&)> one_kernel;
};

// True if something changed; drops the plan then. Nodes keep their order, what comes from one stays together.
// A second call changes nothing.
bool legalise(ir::Schedule& schedule, const KernelLimits& limits);

}  // namespace braid::codegen
