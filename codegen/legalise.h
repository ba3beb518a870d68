// Rewrites a schedule in terms of operations that a target's kernels can perform. The rest of an epilogue
// becomes a loop of its own. Memory that kernels need besides their operands becomes buffers of the graph.
// These are scheduled, planned and held to the memory cap like all others: no target adds bytes to a plan.
//
//   before                                          after
//     %y : f32 = gemm %a, %b epilogue {               %y.sum : f32 = gemm %a, %b epilogue { ... } as relu
//       ... } as relu                                 %y mutates %y.sum = pointwise { sin of load %y.sum }
//     %z : f16 = gemm %a, %b epilogue { ... }         %z.sum : f32 = gemm %a, %b
//                                                     %z : f16 = pointwise { ... load %z.sum }
//     fused f { %t = ...; %u = ... }                  %t = ...   %u = ...
//                                                       (if no kernel can hold the rows)
//     %y = gemm %a, ...                               %a.packed = pointwise { load %a }
//       (%a is no matrix for the target's kernel)     %y = gemm %a.packed, ...
//     %y = convolution ...                            %y = reduction sum ...
//                                                       (if the target has no kernel for it)
//     output %y                                       %y.result = pointwise { load %y }   output %y.result
//       (column-major, or a part of an input)
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "ir/fused_loops.h"
#include "ir/schedule.h"

namespace braid::codegen {

// For a kernel that evaluates any epilogue as it is written.
inline constexpr std::size_t kAnyEpilogue = std::numeric_limits<std::size_t>::max();

// Operands of a product that its kernel takes only as rows without gaps: those are copied.
struct PackedOperands {
  bool a = false, b = false, out = false;
};

struct KernelLimits {
  // Returns how many of the product's named steps (Product::post_ops) its kernel applies before it stores the
  // result, or kAnyEpilogue. Called only for products with an epilogue.
  std::function<std::size_t(const ir::Graph&, const ir::Product&)> post_ops;
  // Null: none are.
  std::function<PackedOperands(const ir::Graph&, const ir::Gemm&)> packed = {};
  // Whether one kernel computes the fused node. Null: always.
  std::function<bool(const ir::Graph&, const ir::FusedLoops&)> one_kernel = {};
  // Whether a kernel of the target computes this convolution or pool; others become loops. Null: none does.
  std::function<bool(const ir::Graph&, const ir::Operation&)> window_kernel = {};
  // Whether the target has a kernel for attention; otherwise it becomes products and loops
  // (passes/expand_attention.h).
  bool attention = false;
};

// Returns whether something changed; then the plan is dropped. Nodes keep their order, and the parts of one
// stay together. Unnamed steps of epilogues are named. A second call changes nothing.
//
// A rewritten product stores the value after the last step that its kernel applies: in the result's memory if
// that has the value's type and no load of the epilogue reads it, otherwise in memory of its own. If the
// epilogue rounds the sums at once to f16 or bf16, they are stored rounded.
bool legalise(ir::Schedule& schedule, const KernelLimits& limits);

}  // namespace braid::codegen
