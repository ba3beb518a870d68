#include "cli/tell_stages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/bytes_text.h"
#include "pipeline/generators.h"
#include "pipeline/simulate.h"

namespace braid::cli {
namespace {

using split::FoundStage;
using split::FoundStages;

// Simulates this many steps, one after another through the stages.
pipeline::Simulation simulated(const FoundStages& found, int steps) {
  const pipeline::PipelineSchedule schedule =
      pipeline::find_generator("Inference")
          .generate({.ranks = found.stages, .stages = found.stages, .microbatches = steps});
  pipeline::PipelineCosts costs;
  for (int s = 0; s < found.stages; ++s) {
    const FoundStage& stage = found.each[static_cast<std::size_t>(s)];
    pipeline::StageCosts own;
    own.forward = stage.compute;
    costs.stages.push_back(own);
    if (s + 1 < found.stages) costs.links.push_back({s, s + 1, {stage.transfer, 0}});
  }
  return pipeline::simulate(schedule, costs);
}

}  // namespace

void tell_stages(const std::vector<FoundStages>& all, Report& report) {
  if (all.empty()) return;
  constexpr int kSteps = 8;
  report.print(
      "Pipeline stages: searched and priced, programs of several stages are not generated yet (BR0493)\n");
  report.print("  {:>6}  {:>10}  {:>16}  {:>12}  {:>14}  {:>8}  {:>14}\n", "stages", "ranks each",
               "longest stage us", "one step us", fmt::format("{} steps us", kSteps), "idle",
               "most of a rank");
  const FoundStages* best = nullptr;
  for (const FoundStages& found : all) {
    nlohmann::ordered_json& json = report.json()["stages"].emplace_back();
    json = {{"stages", found.stages}, {"ranks", found.ranks}};
    if (found.each.empty()) {
      report.print("  {:>6}  {:>10}  none: {}\n", found.stages, found.ranks, found.excluded);
      json["excluded"] = found.excluded;
      continue;
    }
    if (best == nullptr || found.longest < best->longest) best = &found;
    const pipeline::Simulation one = simulated(found, 1), several = simulated(found, kSteps);
    std::int64_t most = 0;
    for (const FoundStage& stage : found.each) most = std::max(most, stage.bytes);
    const double idle =
        static_cast<double>(several.idle().ps) / (static_cast<double>(several.makespan.ps) * found.stages);
    report.print("  {:>6}  {:>10}  {:>16.3f}  {:>12.3f}  {:>14.3f}  {:>6.1f} %  {:>14}\n", found.stages,
                 found.ranks, found.longest.us(), one.makespan.us(), several.makespan.us(), 100 * idle,
                 bytes_text(most));
    json.update({{"longest_us", found.longest.us()},
                 {"shared_plan_us", found.shared.us()},
                 {"step_us", one.makespan.us()},
                 {"steps_us", several.makespan.us()},
                 {"idle", idle},
                 {"bytes", most}});
    for (const FoundStage& stage : found.each)
      json["each"].push_back({{"first", stage.first},
                              {"last", stage.last},
                              {"nodes", stage.nodes},
                              {"split", stage.split},
                              {"collectives", stage.collectives},
                              {"plan", stage.plan},
                              {"compute_us", stage.compute.us()},
                              {"transfer_us", stage.transfer.us()},
                              {"sent", stage.sent},
                              {"bytes", stage.bytes}});
  }
  if (best != nullptr) {
    report.print("  the {} stages with the shortest longest one", best->stages);
    if (best->shared.ps == 0) {
      report.print(", each with a plan of its own; with one plan for all none keeps the memory limit\n");
    } else {
      report.print(", each with a plan of its own; with one plan for all it takes {:.3f} us\n",
                   best->shared.us());
    }
    for (const FoundStage& stage : best->each)
      report.print(
          "    {} to {}: {} of {} nodes split, {} collectives, {:.3f} us; sends {} in {:.3f} us; {}\n",
          stage.first, stage.last, stage.split, stage.nodes, stage.collectives, stage.compute.us(),
          bytes_text(stage.sent), stage.transfer.us(), bytes_text(stage.bytes));
  }
  report.print("\n");
}

}  // namespace braid::cli
