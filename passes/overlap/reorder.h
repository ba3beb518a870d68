// The common frame of all passes that reorder nodes: a problem before, an order after, a report.
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
  analysis::Freedom freedom;  // of starts and waits, from the options; the pass narrows it and adds its caps

  // The name of a node.
  const std::string& name(analysis::NodeId node) const { return ir::name_of(schedule, node.index); }
  bool starts(analysis::NodeId node) const { return problem.started_by(node).valid(); }
  bool waits(analysis::NodeId node) const { return problem.waited_by(node).valid(); }
  bool communicates(analysis::NodeId node) const { return starts(node) || waits(node); }
  // Per node: the first start, counted in input order, that is the node or depends on it; INT_MAX if there is
  // none.
  analysis::IdVector<analysis::NodeId, int> first_start_of() const;
};

struct ReorderOptions {
  bool without_collectives = false;  // also reorder schedules without collectives
  // The order of collectives is no dependency (the pass has kMayReorderCollectives). Programs with sends and
  // receives, which may differ between ranks, keep it anyway.
  bool may_reorder_collectives = false;
};
// Builds the problem, asks `decide` for a topological order, applies it and adds an OverlapReport to the
// context. Returns whether something changed. A schedule without collectives is left alone, unless the
// options say otherwise. Throws InternalError if the order breaks a dependency. Releases come as early as
// they can (early_releases.h), both in the order that `decide` begins with and in its result: they cost
// nothing, and memory held only by a late release must not influence decisions.
bool reorder(std::string_view pass, ir::Schedule& schedule, PassContext& context,
             const std::function<analysis::Order(Reordering&)>& decide, const ReorderOptions& options = {});

}  // namespace braid::passes
