#include "driver/optimise.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/legalise.h"
#include "codegen/target.h"
#include "passes/choose_layouts.h"
#include "passes/dead_code.h"
#include "passes/default_passes.h"
#include "passes/drop_roundings.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_horizontal.h"
#include "passes/fuse_vertical.h"
#include "passes/merge_loops.h"
#include "passes/name_post_ops.h"
#include "passes/plan_memory.h"

namespace braid {

passes::LowerPrecision lower_precision(const CompileOptions& options) {
  return {.type = options.precision, .keep = options.keep_f32};
}

namespace {
constexpr const char* kLegalise = "legalise";

// Inserts legalisation after the last pass that makes or changes kernels. The parts of a node that the
// target's kernels leave to others must be known before scheduling and planning.
void insert_legalisation(std::vector<passes::Pass>& list, const passes::Pass& legalise) {
  constexpr std::string_view kBefore[] = {passes::FuseEpilogues::kName, passes::FuseVertical::kName,
                                          passes::FuseHorizontal::kName, passes::MergeLoops::kName,
                                          passes::NamePostOps::kName};
  const auto plan = std::find_if(list.begin(), list.end(), [](const passes::Pass& pass) {
    return pass.name() == passes::PlanMemory::kName;
  });
  if (plan == list.end()) return;
  const auto last =
      std::find_if(std::make_reverse_iterator(plan), list.rend(), [&](const passes::Pass& pass) {
        return std::find(std::begin(kBefore), std::end(kBefore), pass.name()) != std::end(kBefore);
      });
  list.insert(last.base(), legalise);
}

// Inserts vertical fusion after legalisation: a part that legalisation split off an epilogue may fuse with
// its readers, e.g. a residual with the norm after it. The second legalisation divides nodes that the target
// cannot run.
void fuse_leftovers(std::vector<passes::Pass>& list) {
  const auto legalise = std::find_if(list.begin(), list.end(),
                                     [](const passes::Pass& pass) { return pass.name() == kLegalise; });
  if (legalise == list.end()) return;
  const passes::Pass again = *legalise;
  list.insert(legalise + 1, {passes::FuseVertical(), again});
}

// Inserted after the last fusion pass, which fuse_leftovers() put after the first legalisation. A product
// that stores a step of its epilogue stores it in the type to which the model rounds it there.
void insert_roundings(std::vector<passes::Pass>& list) {
  constexpr std::string_view kFusing[] = {passes::FuseEpilogues::kName, passes::FuseVertical::kName,
                                          passes::FuseHorizontal::kName};
  const auto last = std::find_if(list.rbegin(), list.rend(), [&](const passes::Pass& pass) {
    return std::find(std::begin(kFusing), std::end(kFusing), pass.name()) != std::end(kFusing);
  });
  if (last != list.rend()) list.insert(last.base(), passes::DropRoundings());
}

// Inserted before all passes that change products or the producers of their operands. A dead_code at the
// front of the list stays first, so that unused operations are left out.
void insert_precision(std::vector<passes::Pass>& list, const CompileOptions& options) {
  if (options.precision == "f32") return;
  const bool first = !list.empty() && list.front().name() == passes::DeadCode::kName;
  list.insert(list.begin() + (first ? 1 : 0), lower_precision(options));
}

// Inserts the target's passes after choose_layouts, except those that the list names itself, with options of
// its own.
void insert_after_layouts(std::vector<passes::Pass>& list, const std::vector<passes::Pass>& added) {
  const auto find = [&](std::string_view name) {
    return std::find_if(list.begin(), list.end(),
                        [&](const passes::Pass& pass) { return pass.name() == name; });
  };
  std::vector<passes::Pass> missing;
  for (const passes::Pass& pass : added) {
    if (find(pass.name()) == list.end()) missing.push_back(pass);
  }
  const auto layouts = find(passes::ChooseLayouts::kName);
  list.insert(layouts == list.end() ? list.begin() : layouts + 1, missing.begin(), missing.end());
}

// The passes for the user and the target, then the list, with the target's legalisation in it.
std::vector<passes::Pass> pass_list(const CompileOptions& options, const codegen::Target& target,
                                    const passes::Pass& legalise) {
  std::vector<passes::Pass> list = target.first;
  if (!options.force_kernels.empty()) list.insert(list.begin(), passes::ForceKernels{options.force_kernels});
  std::vector<passes::Pass> asked =
      options.passes ? passes::parse_pass_list(*options.passes) : passes::default_passes();
  insert_precision(asked, options);
  insert_after_layouts(asked, target.after_layouts);
  insert_legalisation(asked, legalise);
  if (!options.passes) {
    fuse_leftovers(asked);
    insert_roundings(asked);
  }
  list.insert(list.end(), asked.begin(), asked.end());
  return list;
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
  return context;
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options) {
  passes::PassContext context = pass_context(options);
  return optimise(schedule, options, context);
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options,
                                         passes::PassContext& context) {
  const codegen::Target& target = codegen::target_named(options.target);
  const passes::Pass legalise(kLegalise,
                              [&target](ir::Schedule& s) { return codegen::legalise(s, target.limits); });
  passes::RunOptions run = options.run;
  run.context = &context;
  std::vector<passes::PassRecord> records =
      passes::run_passes(schedule, pass_list(options, target, legalise), run);
  // A text may contain a plan, and a plug-in's pass may fuse after legalisation.
  if (schedule.plan) {
    legalise.run(schedule, context);
    if (!schedule.plan) passes::PlanMemory().run(schedule, context);
  }
  return records;
}

}  // namespace braid
