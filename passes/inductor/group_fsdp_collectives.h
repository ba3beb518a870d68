// Groups around the collectives of fully sharded data parallelism, chained so that few of them are in flight.
//
//   p  -> cast -> copy_in -> all_gather         grouped g_gather  after f_gather_wait   {cast; copy_in; g}
//   all_gather -> wait -> copy_out              grouped g_gather_wait                   {g.wait; copy_out}
//   grad -> copy_in -> reduce_scatter           grouped r_scatter  after q_scatter_wait {copy_in; r}
//   reduce_scatter -> wait -> output            grouped r_scatter_wait                  {r.wait}
//
// Source: PyTorch, torch/_inductor/comms.py, the four kinds of groups and their chain for FSDP2 (second
// generation, 2024, #131510). Without groups, passes that raise starts would raise all gathers to the top,
// and all full parameters would be alive at once.
//
// Contract
//   1. A gather is FSDP's if it is computed only from inputs and constants, through at most 16 loops and
//      nothing else. Loops whose results nothing else reads go into its group.
//   2. A reduce-scatter is FSDP's if its results reach only outputs, through loops that read nothing else
//      that is computed. Loops before it that copy, cast or scale, and whose results nothing else reads, go
//      into its group.
//   3. Loops after the wait of a gather that only copy or cast the gathered data go into the wait's group,
//      except those that copy it into another collective, as in 2.
//   4. Gather number k + depth comes after the wait of gather k, and the same holds for reduce-scatters: with
//      depth d, at most d of each kind are in flight.
//   5. Blocking collectives and members of groups stay as they are. A group that could not be contiguous is
//      not made; a chain that contradicts dependencies is not requested.
#pragma once

#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct GroupFsdpCollectives {
  static constexpr std::string_view kName = "group_fsdp_collectives";
  static constexpr std::string_view kDescription =
      "groups gathers and reduce-scatters of sharded parameters with their copies; few in flight";

  std::int64_t depth = 1;

  static std::vector<PassOption<GroupFsdpCollectives>> options() {
    return {{"depth", &GroupFsdpCollectives::depth,
             "gathers, and reduce-scatters, in flight at a time, at least 1"}};
  }
  // User error 542 for a depth below 1.
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
