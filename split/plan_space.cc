#include "split/plan_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/fixed_lines.h"
#include "split/found_plan.h"

namespace braid::split {

PlanSpace::PlanSpace(const PlannedProgram& planned, const Mesh& mesh, std::shared_ptr<const KnownWork> known)
    : program(planned),
      options(planned.options),
      graph(*planned.graph),
      work(std::move(known)),
      fixed(options.annotated ? options.annotated->lines(graph, mesh) : FixedLines{}),
      space(graph, mesh,
            with_lines(graph, fixed.plan, fixed.blocks, options.caches ? Caches::in_parts : Caches::whole)),
      points(program.costs, options) {
  require_kept(graph, space);
}

void PlanSpace::make_problem(bool wanted) {
  const bool limited =
      options.memory && std::any_of(points.all().begin(), points.all().end(), [&](const PricePoint& p) {
        return bytes_of_all(graph, split_costs(p.costs)) > *options.memory;
      });
  // On several axes the problem is large, and needed only for additional requests.
  if (!space.large() &&
      (space.mesh().size() == 1 || wanted || limited || !options.keep.empty() || points.several()))
    problem = points.problem(space, {});
  if (!options.keep.empty()) {
    if (!problem)
      ir::user_error(
          errors::kSplitRequest, {.file = options.keep_file},
          fmt::format("the model has too many choices on [{}] for lines to be kept", to_string(space.mesh())),
          "give a complete plan, or fewer axes");
    kept.emplace(graph, space, parse_mesh_plan(options.keep, options.keep_file), options.keep_file);
    kept->require_possible(*problem);
  }
  if (limited) {
    for (const PricePoint& point : points.all())
      rows.emplace_back(graph, space, split_costs(point.costs).size);
  }
  if (problem && (kept || !rows.empty())) {
    restrict = [this](Problem& restricted) {
      if (kept) kept->restrict(restricted);
      for (const MemoryRows& own : rows) own.limit(restricted, *options.memory);
    };
  }
}

Problem PlanSpace::allowed() const {
  Problem own = *problem;
  if (kept) kept->restrict(own);
  return own;
}

Assignment PlanSpace::completed(const Assignment& choice) const {
  Problem restricted = *problem;
  restrict(restricted);
  for (const VariableId v : choice.ids()) {
    for (const ChoiceId c : restricted.choices_of(v))
      if (c != choice[v]) restricted.variables[v].forbid(c);
  }
  return solve(restricted).choice;
}

std::vector<ir::Expr> sizes_of_all(const Graph& graph) {
  std::vector<ir::Expr> sizes;
  for (const GraphValue& value : graph.values)
    sizes.insert(sizes.end(), value.sizes.begin(), value.sizes.end());
  return sizes;
}

std::size_t most_searches() { return std::min<std::size_t>(std::thread::hardware_concurrency(), 4); }

}  // namespace braid::split
