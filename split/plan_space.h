// What a search for candidates (candidates.h) looks through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "split/candidates.h"
#include "split/fixed_lines.h"
#include "split/keep.h"
#include "split/memory.h"
#include "split/price_points.h"
#include "split/space.h"

namespace braid::split {

using Restrict = std::function<void(Problem&)>;

// All plans on a mesh, and what options allow of them.
struct PlanSpace {
  // `graph` must outlive this. UserErrors: BR0482 for annotations that contradict.
  PlanSpace(const Graph& graph, const Mesh& mesh, const std::shared_ptr<const analysis::CostModel>& costs,
            const SearchOptions& options);
  PlanSpace(const PlanSpace&) = delete;

  // Unless the space is large, on one axis, under limits, or if it is `wanted`. UserErrors: BR0482 for lines that are kept.
  void make_problem(const SearchOptions& options, bool wanted);
  // The problem without limits of memory.
  Problem allowed() const;
  // The choice of all variables of the restricted problem in which those of the space have this one; empty if that is not allowed.
  std::vector<int> completed(const std::vector<int>& choice) const;

  const Graph& graph;
  FixedLines fixed;
  SplitSpace space;
  PricePoints points;
  std::optional<Problem> problem;  // without what restricts it
  std::optional<KeptLines> kept;
  std::vector<MemoryRows> rows;  // by point, if a limit of memory could bind; of a large space of one
  Restrict restrict;             // null: nothing
};

// Of all tensors.
std::vector<ir::Expr> sizes_of_all(const Graph& graph);
// At once. Each has tables of its own, so that more would take too much memory where there are many processors.
std::size_t most_searches();

}  // namespace braid::split
