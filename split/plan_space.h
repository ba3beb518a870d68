// The space of one program's plans that a search (plan_search.h) explores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "split/candidates.h"
#include "split/fixed_lines.h"
#include "split/kept_lines.h"
#include "split/machine_costs.h"
#include "split/memory_rows.h"
#include "split/price_points.h"
#include "split/split_space.h"

namespace braid::split {

using Restrict = std::function<void(Problem&)>;

// All plans of a program on a mesh, and what its options allow of them.
struct PlanSpace {
  // The program must outlive this. `known` is the work of its nodes; null: not computed before. Throws
  // UserError BR0482 for annotations that contradict.
  PlanSpace(const PlannedProgram& planned, const Mesh& mesh,
            std::shared_ptr<const KnownWork> known = nullptr);
  PlanSpace(const PlanSpace&) = delete;

  // Makes `problem` if the space is not large and one of these holds: the mesh has one axis, a limit of
  // memory could bind, lines are kept, there are several price points, or `wanted`. Makes kept, rows and
  // restrict, too. Throws UserErrors: BR0482 for lines that are kept; kSplitRequest for these in a large
  // space.
  void make_problem(bool wanted);
  // The costs at the first point.
  SplitCosts costs(const SplitCostOptions& own = {}) const { return split_costs(program.costs, own, work); }
  // The problem without limits of memory.
  Problem allowed() const;
  // Completes a choice of the space's variables to one of the restricted problem; empty if that is not
  // allowed.
  Assignment completed(const Assignment& choice) const;

  const PlannedProgram& program;
  const SearchOptions& options;
  const Graph& graph;
  std::shared_ptr<const KnownWork> work;
  FixedLines fixed;
  SplitSpace space;
  PricePoints points;
  std::optional<Problem> problem;  // without restrictions
  std::optional<KeptLines> kept;
  std::vector<MemoryRows> rows;  // by point, if a limit of memory could bind
  Restrict restrict;             // null: nothing
};

// The sizes of all tensors.
std::vector<ir::Expr> sizes_of_all(const Graph& graph);
// The most searches at once. Each has tables of its own, so more would take too much memory on many
// processors.
std::size_t most_searches();

}  // namespace braid::split
