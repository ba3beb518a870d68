// --force-kernel COLLECTIVE=KERNEL[:blocking]: the user's choice, applied before any pass.
//
// COLLECTIVE is the name of an operation or ONNX node, a kind (all_reduce), or * for all. KERNEL is an
// algorithm that the engine of the target executes for the kind, or `automatic`: then the engine chooses at
// run time, and no pass does. With :blocking the collective also loses its wait (passes/make_blocking.h). If
// several options name one collective, the last one counts.
//
// `*` skips collectives that cannot have the kernel; every other option without effect is an error:
//   586  the text does not have that form
//   587  no such collective; the hint lists those that exist
//   588  the collective cannot have that kernel, or cannot block; the hint lists its kernels
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct ForcedKernel {
  std::string collective;
  std::string kernel;  // as CollectiveKernel::algorithm
  bool blocking = false;
};
// User error 586. `given`: the option with this text, for messages.
ForcedKernel parse_forced_kernel(const std::string& text, const std::string& given = {});

// This pass has no name in pass lists: the driver runs it first if the user chooses kernels. Adds the names
// of the collectives to context.forced_kernels. Throws user errors 587 and 588.
struct ForceKernels {
  static constexpr std::string_view kName = "force_kernels";
  static constexpr std::string_view kDescription = "gives collectives the kernels that the user chooses";

  std::vector<ForcedKernel> forced;
  std::string option{kName};  // for messages

  bool run(ir::Schedule& schedule, PassContext& context) const;
};

}  // namespace braid::passes
