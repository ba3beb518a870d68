// Fuse, legalise, schedule, plan: the passes of a compilation.
#pragma once

#include <vector>

#include "driver/compile_options.h"
#include "ir/schedule.h"
#include "passes/lower_precision.h"
#include "passes/pass_context.h"
#include "passes/runner.h"

namespace braid {

// The pass that computes in options.precision, which is not f32.
passes::LowerPrecision lower_precision(const CompileOptions& options);
// The costs, the memory cap and the target's kernels; after the passes it holds their reports.
passes::PassContext pass_context(const CompileOptions& options);
// Runs the pass list (passes/default_passes.h). Returns the record of each pass.
std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options);
std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options,
                                         passes::PassContext& context);
// Legalises the schedule for its target and plans its memory, where a list of passes has not.
void complete(ir::Schedule& schedule, const CompileOptions& options, passes::PassContext& context);

}  // namespace braid
