#include "driver/split_explanations.h"

namespace braid {

void explain_choice(SplitPrograms& programs, const std::optional<FoundSplit::Search>& search,
                    SplitReport& report) {
  if (!search || search->mesh.ranks() == 1) return;
  if (programs.several()) {
    for (split::PlanConversion& line : report.plan.conversions)
      line.unpriced = "programs that are split together share their weights";
    return;
  }
  split::SearchOptions options = programs.search_options(search->obey);
  options.memory = search->memory;
  programs.with_graph([&](const split::Graph& graph) {
    split::price_alternatives(graph, search->mesh, programs.costs(), options, report.plan);
  });
  options.explain = true;
  options.bounds = false;
  for (SplitMesh& line : report.meshes) {
    if (line.ranks == search->mesh.ranks())
      line.flips = programs.find_plans({split::Mesh::line(line.ranks)}, options).front().flips;
  }
}

void find_pipelines(SplitPrograms& programs, SplitReport& report) {
  const int devices = programs.options().split.devices;
  split::SearchOptions options = programs.search_options(false);
  options.memory = programs.limit();
  for (int stages = 2; stages <= devices; ++stages) {
    if (devices % stages != 0) continue;
    programs.with_graph([&](const split::Graph& graph) {
      report.stages.push_back(split::find_stages(graph, stages, devices / stages, programs.costs(), options));
    });
  }
}

}  // namespace braid
