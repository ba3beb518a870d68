// What all passes that change the order of nodes have in common: the problem before, an order after, a
// report.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "analysis/report.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct Reordering {
  const ir::Schedule& schedule;
  const analysis::Problem& problem;
  const analysis::MemoryModel& memory;
  PassContext& context;
  analysis::Freedom
      freedom;  // as the options say, starts and waits; for the pass to narrow, and to add its caps

  // Name of a node.
  const std::string& name(analysis::NodeId node) const { return ir::name_of(schedule, node.index); }
  bool starts(analysis::NodeId node) const { return problem.started_by(node).valid(); }
  bool waits(analysis::NodeId node) const { return problem.waited_by(node).valid(); }
  bool communicates(analysis::NodeId node) const { return starts(node) || waits(node); }
  // Which of the starts, counted in input order, is the first that the node is or that depends on it; INT_MAX:
  // none.
  analysis::IdVector<analysis::NodeId, int> first_start_of() const;
};

struct ReorderOptions {
  bool without_collectives = false;  // also where there is no collective
  // Their order is no dependency (the pass says kMayReorderCollectives). Programs with sends and receives,
  // which may differ between ranks, keep it all the same.
  bool may_reorder_collectives = false;
};
// Builds the problem, asks `decide` for a topological order, applies it and adds an OverlapReport to the
// context. False if nothing changed; a schedule without collectives is left alone, unless the options say
// otherwise. InternalError if the order breaks a dependency. Releases come as early as they can
// (early_releases.h), in the order that `decide` starts from as well as in its own: they cost nothing, and
// memory that only a late release holds is no reason for anything.
bool reorder(std::string_view pass, ir::Schedule& schedule, PassContext& context,
             const std::function<analysis::Order(Reordering&)>& decide, const ReorderOptions& options = {});

}  // namespace braid::passes
