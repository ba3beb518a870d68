#include "passes/default_passes.h"

#include "passes/align_weights.h"
#include "passes/byte_tables.h"
#include "passes/choose_layouts.h"
#include "passes/dead_code.h"
#include "passes/drop_roundings.h"
#include "passes/expand_attention.h"
#include "passes/expand_convolutions.h"
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

constexpr PipelineStep kDefault[] = {
    {"dead_code", "first, so that no pass optimises unused operations and unread results do not stop fusion"},
    {"integer_products",
     "while operands of products are loops of their own; before forward_copies, layouts and fusion, which "
     "change them"},
    {"forward_copies",
     "before fusion, which would make one node of two copies and keep the tensor between them"},
    {"forward_parts",
     "before fusion, which cannot make one node of a concatenation and a loop that reads all of it"},
    {"choose_layouts",
     "before fusion, so that loops and the results of convolutions that take them in have one order"},
    {"hoist_invariants",
     "loops iterate as they will; before fusion, so that an epilogue may take the new loop in"},
    {"fuse_epilogues",
     "before other fusion: a loop in an epilogue costs no pass over memory, in a fused node it may"},
    {"fuse_vertical",
     "before horizontal fusion: an intermediate that stays in registers saves more than a shared read"},
    {"fuse_horizontal", "on what is left: loops that share only their inputs"},
    {"byte_tables", "chains of operators are one body, and roundings between them are gone"},
    {"name_post_ops", "epilogues are complete"},
    {"raise_outputs", "on the nodes as they will run, so that sources of results do not live to the end"},
    {"merge_loops", "after fusion, which needs the dimensions that members have in common"},
    {"braid_schedule{memory_growth=10}",
     "on the nodes as they will run; by default, hiding communication may cost at most a tenth more "
     "memory"},
    {"select_kernels", "collectives have their final sizes: they are no longer merged or split"},
    {"sink_releases", "the order of everything else is final; only where it costs no memory"},
    {"plan_memory", "last: lifetimes are those of the final order, and any later move would void them"},
};

}  // namespace

std::span<const PipelineStep> default_pipeline() { return kDefault; }

std::vector<Pass> default_passes(const PassRegistry& registry) {
  std::vector<Pass> out;
  for (const PipelineStep& step : default_pipeline()) {
    for (Pass& pass : parse_pass_list(step.pass, registry)) out.push_back(std::move(pass));
  }
  return out;
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
