#include "driver/optimise.h"

#include "codegen/legalise.h"
#include "codegen/target.h"
#include "passes/default_passes.h"
#include "passes/plan_memory.h"

namespace braid {

passes::LowerPrecision lower_precision(const CompileOptions& options) {
  return {.type = options.precision, .keep = options.keep_f32};
}

namespace {

passes::Pass legalise_for(const codegen::Target& target) {
  return {"legalise", [&target](ir::Schedule& s) { return codegen::legalise(s, target.limits); }};
}

}  // namespace

passes::PassContext pass_context(const CompileOptions& options) {
  passes::PassContext context;
  const codegen::Target& target = codegen::target_named(options.target);
  const std::string machine = options.machine.empty() ? target.machine : options.machine;
  if (options.cost_file.empty() && !options.link) {
    context.costs = analysis::cost_model_for(machine);
  } else {
    analysis::Machine described = analysis::load_machine(machine);
    if (options.link)
      described = with_paced_link(std::move(described), options.link->latency_us, options.link->gb_s);
    context.costs = std::make_shared<const analysis::CostModel>(
        std::move(described), analysis::CostOptions{.cost_file = options.cost_file});
  }
  context.memory_cap = options.memory_cap;
  context.engine = target.engine;
  context.kernels = target.kernels;
  return context;
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options) {
  passes::PassContext context = pass_context(options);
  return optimise(schedule, options, context);
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options,
                                         passes::PassContext& context) {
  const codegen::Target& target = codegen::target_named(options.target);
  const passes::Pass legalise = legalise_for(target);
  passes::PassListOptions which{.given = options.passes,
                                .force_kernels = {options.force_kernels, options.option("force-kernel")},
                                .first = target.first,
                                .after_layouts = target.after_layouts,
                                .legalise = legalise};
  if (options.precision != "f32") which.precision = lower_precision(options);
  passes::RunOptions run = options.run;
  run.context = &context;
  std::vector<passes::PassRecord> records = passes::run_passes(schedule, passes::pass_list(which), run);
  // A text may contain a plan, and a plug-in's pass may fuse after legalisation.
  if (schedule.plan) complete(schedule, options, context);
  return records;
}

void complete(ir::Schedule& schedule, const CompileOptions& options, passes::PassContext& context) {
  legalise_for(codegen::target_named(options.target)).run(schedule, context);
  if (!schedule.plan) passes::PlanMemory().run(schedule, context);
}

}  // namespace braid
