#include "passes/default_passes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "passes/align_weights.h"
#include "passes/byte_tables.h"
#include "passes/choose_layouts.h"
#include "passes/dead_code.h"
#include "passes/drop_roundings.h"
#include "passes/expand_attention.h"
#include "passes/expand_convolutions.h"
#include "passes/flush_subnormals.h"
#include "passes/forward_copies.h"
#include "passes/forward_parts.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_horizontal.h"
#include "passes/fuse_vertical.h"
#include "passes/hoist_invariants.h"
#include "passes/inductor/decide_global_ordering_of_comms.h"
#include "passes/inductor/group_fsdp_collectives.h"
#include "passes/inductor/raise_comms.h"
#include "passes/inductor/reorder_communication_preserving_peak_memory.h"
#include "passes/inductor/reorder_compute_for_overlap.h"
#include "passes/inductor/reorder_for_peak_memory.h"
#include "passes/inductor/schedule_for_comm.h"
#include "passes/inductor/simple_overlap.h"
#include "passes/inductor/sink_waits.h"
#include "passes/inductor/sink_waits_iterative.h"
#include "passes/integer_products.h"
#include "passes/lower_precision.h"
#include "passes/merge_loops.h"
#include "passes/merge_products.h"
#include "passes/name_post_ops.h"
#include "passes/narrow_results.h"
#include "passes/overlap/braid_schedule.h"
#include "passes/overlap/bucket_collectives.h"
#include "passes/overlap/bucket_preserving_overlap.h"
#include "passes/overlap/bucket_saturated.h"
#include "passes/overlap/split_collectives.h"
#include "passes/overlap/ungroup.h"
#include "passes/pad_results.h"
#include "passes/plan_memory.h"
#include "passes/raise_outputs.h"
#include "passes/select_kernels.h"
#include "passes/sink_releases.h"
#include "passes/split_reductions.h"

namespace braid::passes {
namespace {

// The condition under which a step is in the list. The name of a step stands for the passes of
// PassListOptions if its condition is a member of that name.
enum class When : std::uint8_t {
  always,
  forced_kernels,
  precision,
  first,
  after_layouts,
  legalise,
  for_target,  // with a legalisation
};
// The place of a step in a list that the user gives.
enum class InGiven : std::uint8_t {
  absent,  // only if the user names it
  before_all,
  after_dead_code,  // if that is the first one; else at the front
  after_layouts,    // after choose_layouts; without it at the front. Not if the user names the pass
  after_fusion,     // after the last pass that makes or changes kernels, if memory is planned afterwards
};

struct PipelineStep {
  std::string_view pass;  // with options, as parse_pass_list reads it
  When when;
  InGiven in_given;
  std::string_view why;  // why it comes at this point
};

constexpr PipelineStep kDefault[] = {
    {"force_kernels", When::forced_kernels, InGiven::before_all,
     "before any pass that chooses a kernel or moves a collective"},
    {"passes of the target", When::first, InGiven::before_all,
     "all others see the program as these leave it"},
    {"dead_code", When::always, InGiven::absent,
     "first, so that no pass optimises unused operations and unread results do not stop fusion"},
    {"lower_precision", When::precision, InGiven::after_dead_code,
     "unused operations are gone; before all passes that change products or the producers of their operands"},
    {"integer_products", When::always, InGiven::absent,
     "while operands of products are loops of their own; before forward_copies, layouts and fusion, which "
     "change them"},
    {"forward_copies", When::always, InGiven::absent,
     "before fusion, which would make one node of two copies and keep the tensor between them"},
    {"forward_parts", When::always, InGiven::absent,
     "before fusion, which cannot make one node of a concatenation and a loop that reads all of it"},
    {"choose_layouts", When::always, InGiven::absent,
     "before fusion, so that loops and the results of convolutions that take them in have one order"},
    {"passes of the target", When::after_layouts, InGiven::after_layouts,
     "before fusion, which must see the operations that the target's kernels take"},
    {"hoist_invariants", When::always, InGiven::absent,
     "loops iterate as they will; before fusion, so that an epilogue may take the new loop in"},
    {"fuse_epilogues", When::always, InGiven::absent,
     "before other fusion: a loop in an epilogue costs no pass over memory, in a fused node it may"},
    {"fuse_vertical", When::always, InGiven::absent,
     "before horizontal fusion: an intermediate that stays in registers saves more than a shared read"},
    {"fuse_horizontal", When::always, InGiven::absent, "on what is left: loops that share only their inputs"},
    {"byte_tables", When::always, InGiven::absent,
     "chains of operators are one body, and roundings between them are gone"},
    {"name_post_ops", When::always, InGiven::absent, "epilogues are complete"},
    {"flush_subnormals", When::always, InGiven::absent,
     "epilogues are complete: what stays in loops of its own keeps its bits"},
    {"raise_outputs", When::always, InGiven::absent,
     "on the nodes as they will run, so that sources of results do not live to the end"},
    {"merge_loops", When::always, InGiven::absent,
     "after fusion, which needs the dimensions that members have in common"},
    {"legalise", When::legalise, InGiven::after_fusion,
     "nodes are complete; scheduling and planning must know the parts that the target's kernels leave to "
     "others"},
    {"fuse_vertical", When::for_target, InGiven::absent,
     "a part that legalisation split off an epilogue may fuse with its readers, e.g. a residual with the "
     "norm "
     "after it"},
    {"drop_roundings", When::for_target, InGiven::absent,
     "after all fusion: a product that stores a step of its epilogue stores it in the type to which the "
     "model "
     "rounds it there"},
    {"legalise", When::legalise, InGiven::absent, "again: it divides fused nodes that the target cannot run"},
    {"braid_schedule{memory_growth=10}", When::always, InGiven::absent,
     "on the nodes as they will run; by default, hiding communication may cost at most a tenth more "
     "memory"},
    {"select_kernels", When::always, InGiven::absent,
     "collectives have their final sizes: they are no longer merged or split"},
    {"sink_releases", When::always, InGiven::absent,
     "the order of everything else is final; only where it costs no memory"},
    {"plan_memory", When::always, InGiven::absent,
     "last: lifetimes are those of the final order, and any later move would void them"},
};
static_assert(std::ranges::none_of(kDefault, &std::string_view::empty, &PipelineStep::why));

// The number of passes before the first one of that name; all if there is none.
std::size_t place_of(std::span<const Pass> list, std::string_view name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Pass& pass) { return pass.name() == name; });
  return static_cast<std::size_t>(found - list.begin());
}

// `named`: the passes that the list has anyway.
std::vector<Pass> passes_of(const PipelineStep& step, const PassListOptions& options,
                            std::span<const Pass> named, const PassRegistry& registry) {
  std::vector<Pass> own;
  switch (step.when) {
    case When::always:
      return parse_pass_list(step.pass, registry);
    case When::forced_kernels:
      if (!options.force_kernels.forced.empty()) own.emplace_back(options.force_kernels);
      break;
    case When::precision:
      if (options.precision) own.emplace_back(*options.precision);
      break;
    case When::first:
      return options.first;
    case When::after_layouts:
      for (const Pass& pass : options.after_layouts)
        if (place_of(named, pass.name()) == named.size()) own.push_back(pass);
      break;
    case When::legalise:
      if (options.legalise) own.push_back(*options.legalise);
      break;
    case When::for_target:
      if (options.legalise) return parse_pass_list(step.pass, registry);
      break;
  }
  return own;
}

// Returns the place of a step in a list that the user gives; nullopt: it has none.
std::optional<std::size_t> place_in(std::span<const Pass> list, InGiven place) {
  constexpr std::string_view kFusing[] = {FuseEpilogues::kName, FuseVertical::kName, FuseHorizontal::kName,
                                          MergeLoops::kName, NamePostOps::kName};
  const std::size_t layouts = place_of(list, ChooseLayouts::kName);
  std::size_t plan = place_of(list, PlanMemory::kName);
  switch (place) {
    case InGiven::absent:
      break;
    case InGiven::before_all:
      return 0;
    case InGiven::after_dead_code:
      return !list.empty() && list[0].name() == DeadCode::kName ? 1 : 0;
    case InGiven::after_layouts:
      return layouts == list.size() ? 0 : layouts + 1;
    case InGiven::after_fusion:
      if (plan == list.size()) break;
      while (plan > 0 && std::ranges::find(kFusing, list[plan - 1].name()) == std::end(kFusing)) --plan;
      return plan;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Pass> default_passes(const PassRegistry& registry) {
  std::vector<Pass> list;
  for (const PipelineStep& step : kDefault) {
    if (step.when == When::always)
      std::ranges::move(parse_pass_list(step.pass, registry), std::back_inserter(list));
  }
  return list;
}

std::vector<Pass> pass_list(const PassListOptions& options, const PassRegistry& registry) {
  const std::vector<Pass> named =
      options.given ? parse_pass_list(*options.given, registry) : default_passes(registry);
  std::vector<Pass> front, list;
  if (options.given) list = named;
  for (const PipelineStep& step : kDefault) {
    const std::optional<std::size_t> place = options.given ? place_in(list, step.in_given) : list.size();
    if (!place) continue;
    const std::vector<Pass> own = passes_of(step, options, named, registry);
    std::vector<Pass>& into = step.in_given == InGiven::before_all ? front : list;
    const auto at = into.begin() + static_cast<std::ptrdiff_t>(&into == &front ? front.size() : *place);
    into.insert(at, own.begin(), own.end());
  }
  list.insert(list.begin(), front.begin(), front.end());
  return list;
}

void register_builtin_passes(PassRegistry& registry) {
  registry.add<AlignWeights>();
  registry.add<BraidSchedule>();
  registry.add<BucketCollectives>();
  registry.add<BucketPreservingOverlap>();
  registry.add<BucketSaturated>();
  registry.add<ByteTables>();
  registry.add<ChooseLayouts>();
  registry.add<DeadCode>();
  registry.add<DecideGlobalOrderingOfComms>();
  registry.add<DropRoundings>();
  registry.add<ExpandAttention>();
  registry.add<ExpandConvolutions>();
  registry.add<FlushSubnormals>();
  registry.add<ForwardCopies>();
  registry.add<ForwardParts>();
  registry.add<FuseEpilogues>();
  registry.add<FuseHorizontal>();
  registry.add<FuseVertical>();
  registry.add<GroupFsdpCollectives>();
  registry.add<HoistInvariants>();
  registry.add<IntegerProducts>();
  registry.add<LowerPrecision>();
  registry.add<MergeLoops>();
  registry.add<MergeProducts>();
  registry.add<NamePostOps>();
  registry.add<NarrowResults>();
  registry.add<PadResults>();
  registry.add<PlanMemory>();
  registry.add<RaiseComms>();
  registry.add<RaiseOutputs>();
  registry.add<ReorderCommunicationPreservingPeakMemory>();
  registry.add<ReorderComputeForOverlap>();
  registry.add<ReorderForPeakMemory>();
  registry.add<ScheduleForComm>();
  registry.add<SelectKernels>();
  registry.add<SimpleOverlap>();
  registry.add<SinkReleases>();
  registry.add<SinkWaits>();
  registry.add<SinkWaitsIterative>();
  registry.add<SplitCollectives>();
  registry.add<SplitReductions>();
  registry.add<Ungroup>();
}

}  // namespace braid::passes
