// Merges several collectives into one coalesced collective: the basis of bucketing.
//
//   %a = all_gather @dp (%x) as ga ... wait ga     ->   %a, %b = all_gather @dp (%x, %y) as ga ... wait ga
//   %b = all_gather @dp (%y) as gb ... wait gb
//
// One start with all operands, one wait, one release: nothing is copied, each operand stays where it is, and
// types may differ (the engines issue a group of calls). The latency is paid once.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/problem.h"
#include "ir/schedule.h"

namespace braid::passes {

// Collectives may be merged if their keys are equal. Sends and receives never are.
struct MergeKey {
  ir::CollectiveKind kind = ir::CollectiveKind::all_reduce;
  ir::GroupId group;
  ir::ReduceKind reduce = ir::ReduceKind::sum;
  int root = -1;
  ir::DType dtype = ir::DType::f32;  // of the first operand, unless types may be mixed
  ir::Algorithm algorithm = ir::Algorithm::unasked;
  friend auto operator<=>(const MergeKey&, const MergeKey&) = default;
};
MergeKey merge_key(const ir::Graph& graph, ir::OpId start, bool mixed_dtypes);

// Whether this collective can be merged at all: it is alone in its node, asynchronous, priced by size, and no
// send or receive. Its wait and its release, if any, are in nodes of their own.
bool may_merge(const ir::Schedule& schedule, const analysis::Problem& problem,
               analysis::CollectiveId collective);

// A set of collectives to merge, in the order in which their operands are listed.
struct Bucket {
  std::vector<analysis::CollectiveId> collectives;  // of the problem; at least two
};

// The cost of the merged collective.
analysis::CollectiveCost merged_cost(const ir::Schedule& schedule, const analysis::Problem& problem,
                                     const analysis::CostModel& costs, const Bucket& bucket);

// Returns the makespan after merge_collectives(), without merging; nullopt if that would refuse. `costs`
// holds the cost of each merged bucket. About as fast as one simulation.
std::optional<analysis::Time> merged_makespan(const analysis::Problem& problem,
                                              std::span<const Bucket> buckets,
                                              std::span<const analysis::CollectiveCost> costs);

// Merges each bucket of a schedule (whose problem this is) and places the merged nodes. A start goes where
// the last collective of its bucket is ready, a wait before the first user of the bucket. The other nodes
// keep their order as far as dependencies allow. Returns false, with nothing changed, if buckets depend on
// themselves or on each other in a cycle.
bool merge_collectives(ir::Schedule& schedule, const analysis::Problem& problem,
                       std::span<const Bucket> buckets);

}  // namespace braid::passes
