// --force-kernel COLLECTIVE=KERNEL[:blocking]: what the user asks for, before any pass.
//
// COLLECTIVE is the name of an operation or ONNX node, a kind (all_reduce), or * for all. KERNEL is an
// algorithm of the kind that the engine of the target executes, or automatic: then no pass chooses and the
// engine does at run time. With :blocking the collective also loses its wait (passes/make_blocking.h). Of
// several that speak of one collective the last one counts.
//
// `*` passes over collectives that cannot be asked for this; everything else that has no effect is an error:
//   586  the text is not of that form
//   587  no such collective; the hint lists those that exist
//   588  the collective cannot have that kernel, or cannot block; the hint lists what it can have
#pragma once

#include <span>
#include <string>

#include "ir/schedule.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ForcedKernel {
  std::string collective;
  std::string kernel;  // as CollectiveKernel::algorithm
  bool blocking = false;
};
// User error 586.
ForcedKernel parse_forced_kernel(const std::string& text);

// User errors 587 and 588. Notes the names in context.forced_kernels. Drops the plan where something changes.
void force_kernels(ir::Schedule& schedule, std::span<const ForcedKernel> forced, PassContext& context);

}  // namespace braid::passes
