#include "split/candidates.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>

#include "ir/parallel.h"
#include "ir/shared_pool.h"
#include "split/found_plan.h"
#include "split/machine_costs.h"
#include "split/obstacles.h"
#include "split/plan_search.h"
#include "split/plan_space.h"
#include "split/shared_tensors.h"

namespace braid::split {

analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const SearchOptions& options) {
  return least_time(graph, ranks, costs, bound_options(options, Mesh::line(ranks), options.attention_flops));
}

std::vector<FoundPlans> find_plans(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                                   const std::vector<Mesh>& meshes) {
  for (const Mesh& mesh : meshes) {
    for (const PlannedProgram& program : programs)
      if (program.options.obey && !program.options.annotated && mesh.size() == 1 && mesh.ranks() > 1)
        require_divisible(*program.graph, mesh.ranks());
  }
  const SearchOptions& options = programs[0].options;
  const KnownWorks works = known_works(programs);
  std::deque<ir::SharedPool> pools;
  for (const PlannedProgram& program : programs) pools.emplace_back(sizes_of_all(*program.graph));
  KnownBounds known = options.known;
  std::vector<FoundPlans> all(meshes.size());
  std::vector<std::size_t> left(meshes.size());
  std::iota(left.begin(), left.end(), 0);
  const auto search = [&](std::size_t k) {
    all[k] = find_plans_on(meshes[k], programs, shared, works, known);
  };
  if (options.bounds && !options.known.loads && meshes.size() > 1) {
    const auto most = std::ranges::max_element(left, {}, [&](std::size_t k) { return meshes[k].ranks(); });
    const FoundPlans& first = all[*most];
    search(*most);
    left.erase(most);
    if (!first.plans.empty()) known.add(first.loads, first.order);
  }
  // Longer searches begin first.
  std::ranges::stable_sort(left, std::greater(), [&](std::size_t k) { return meshes[k].size(); });
  ir::parallel_for(left.size(), most_searches(), [&](std::size_t k) { search(left[k]); });
  return all;
}

std::vector<FoundPlans> find_plans(const Graph& graph, const std::vector<Mesh>& meshes,
                                   const std::shared_ptr<const analysis::CostModel>& costs,
                                   const SearchOptions& options) {
  const PlannedProgram program{&graph, costs, options};
  return find_plans({&program, 1}, {}, meshes);
}

int next_ranks_within(const Graph& graph, int above, std::int64_t memory,
                      const std::shared_ptr<const analysis::CostModel>& costs, const SearchOptions& options) {
  const PricePoints points(costs, options);
  const Obstacles obstacles(graph);
  SolveOptions effort;
  effort.budget >>= 6;  // each is one of many
  for (int ranks = above + 1; ranks <= kMostRanksWithin; ++ranks) {
    if (options.obey && obstacles.of(ranks)) continue;
    const SplitSpace space(graph, ranks, options.caches ? Caches::in_parts : Caches::whole);
    const Problem problem = space.problem(split_costs(costs));
    const auto possible = [&](const PricePoint& point) {
      return MemoryRows(graph, space, split_costs(point.costs).size).least(problem, effort, memory).bytes <=
             memory;
    };
    if (std::ranges::all_of(points.all(), possible)) return ranks;
  }
  return 0;
}

bool FoundPlan::splits_nothing() const {
  return std::all_of(layers.begin(), layers.end(), [](const PlanLayer& layer) { return layer.split == 0; });
}

Mesh mesh_of_plan(const std::string& text, const std::string& file) {
  return parse_mesh_plan(text, file).mesh;
}

}  // namespace braid::split
