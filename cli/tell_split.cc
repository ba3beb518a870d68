#include "cli/tell_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace braid::cli {

void write_split(const SplitReport& split, Report& report) {
  if (split.chosen < 0) return;
  const SplitCandidate& chosen = *split.chosen_one();
  nlohmann::ordered_json& json = report.json()["split"];
  json["ranks"] = chosen.ranks;
  json["simulated_us"] = chosen.simulated.us();
  for (std::size_t k = 0; split.several_sizes() && k < chosen.at_sizes.size(); ++k)
    json["at"].push_back({{"sizes", split.sizes[k].dims},
                          {"steps", split.sizes[k].steps},
                          {"simulated_us", chosen.at_sizes[k].us()}});
  for (const SplitShare& share : shares(split)) {
    nlohmann::ordered_json& one = json["programs"].emplace_back();
    one = {{"model", share.model}, {"predicted_us", share.own.us()}, {"alone_us", share.alone.us()}};
    for (std::size_t k = 0; k < share.steps.size(); ++k)
      one["at"].push_back({{"sizes", share.sizes[k].dims},
                           {"steps", share.sizes[k].steps},
                           {"simulated_us", share.steps[k].us()}});
  }
  if (split.shared_weights > 0) {
    json["shared_weights"] = split.shared_weights;
    json["shared_bytes"] = split.shared_bytes;
  }
  if (split.lower_bound().ps > 0) {
    json["bound_us"] = split.lower_bound().us();
    json["gap"] = split.gap();
    json["load_bound_us"] = split.load_bound.us();
  }
  for (const SplitCandidate& c : split.candidates) {
    nlohmann::ordered_json& tried = json["tried"].emplace_back();
    tried = {{"ranks", c.ranks}, {"plan", c.name}, {"predicted_us", c.predicted.us()}, {"exact", c.proved}};
    if (c.skipped) {
      tried["at_least_us"] = c.floor.us();
    } else if (c.refused.empty()) {
      tried["simulated_us"] = c.simulated.us();
    } else {
      tried["refused"] = c.refused;
    }
  }
}

void tell_split(const CompileOptions& options, Report& report) {
  if (!options.split.wanted() || !options.split_report || options.split_report->chosen < 0) return;
  const SplitReport& split = *options.split_report;
  write_split(split, report);
  const SplitCandidate& chosen = *split.chosen_one();
  std::string line =
      fmt::format("{} {}: {:.3f} us {}", chosen.ranks, chosen.ranks == 1 ? "device" : "devices",
                  chosen.simulated.us(), split.several_sizes() ? "for all steps" : "a step");
  for (std::size_t k = 0; split.several_sizes() && k < chosen.at_sizes.size(); ++k)
    line += fmt::format("{} {:.3f} us a step at {}", k == 0 ? ":" : ",", chosen.at_sizes[k].us(),
                        to_string(split.sizes[k]));
  for (const SplitProgram& other : chosen.with)
    line +=
        fmt::format(", {:.3f} us a step of {} at {}", other.step.us(), other.model, to_string(other.sizes));
  if (options.split.devices > chosen.ranks) {
    line += fmt::format("; of {} allowed, more are not faster", options.split.devices);
    for (int ranks = chosen.ranks + 1; ranks <= options.split.devices; ++ranks) {
      analysis::Time best = analysis::Time::max();
      for (const SplitCandidate& c : split.candidates) {
        if (c.ranks == ranks && c.ran()) best = std::min(best, c.simulated);
      }
      if (best < analysis::Time::max()) line += fmt::format(", {}: {:.3f} us", ranks, best.us());
    }
  }
  if (chosen.ranks > 1 && split.plan.splits_nothing() && options.split.plan_file.empty())
    line +=
        "; nothing of the model is split, because no rule applies to these sizes or whole is cheaper: every "
        "rank computes all of it";
  report.print("{}\n", line);
}

}  // namespace braid::cli
