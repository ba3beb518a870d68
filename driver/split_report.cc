#include "driver/split_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/measure.h"

namespace braid {

const SplitCandidate* SplitReport::chosen_one() const {
  return chosen < 0 ? nullptr : &candidates[static_cast<std::size_t>(chosen)];
}

std::string SplitReport::plan_text() const { return plan.text.empty() ? "plan 1\nranks 1\n" : plan.text; }

namespace {
double gap_to(const SplitReport& report, analysis::Time bound) {
  const SplitCandidate* chosen = report.chosen_one();
  if (chosen == nullptr || bound.ps == 0) return 0;
  return static_cast<double>(chosen->simulated.ps) / static_cast<double>(bound.ps) - 1;
}
}  // namespace

int SplitReport::runner_up() const {
  int second = -1;
  for (int k = 0; k < static_cast<int>(candidates.size()); ++k) {
    const SplitCandidate& c = candidates[static_cast<std::size_t>(k)];
    if (k == chosen || !c.ran()) continue;
    if (second < 0 || c.simulated < candidates[static_cast<std::size_t>(second)].simulated) second = k;
  }
  return second;
}

std::string count_of_ranks(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

analysis::Time SplitReport::fastest(int ranks) const {
  analysis::Time time = analysis::Time::max();
  for (const SplitCandidate& c : candidates)
    if (c.ranks == ranks && c.ran()) time = std::min(time, c.simulated);
  return time;
}

std::optional<analysis::Time> SplitReport::useful(int ranks, bool more_axes) const {
  const int second = runner_up();
  if (second < 0) return std::nullopt;
  const analysis::Time time = candidates[static_cast<std::size_t>(second)].simulated;
  return more_axes ? std::max(time, fastest(ranks)) : time;
}

double SplitReport::gap() const { return gap_to(*this, lower_bound()); }
double SplitReport::load_gap() const { return gap_to(*this, load_bound); }

std::string to_string(const StepSizes& sizes) {
  std::vector<std::string> dims;
  for (const auto& [name, size] : sizes.dims) dims.push_back(fmt::format("{}={}", name, size));
  if (dims.empty()) dims.emplace_back("upper bounds");
  return fmt::format("{}, {} {}", fmt::join(dims, ", "), sizes.steps, sizes.steps == 1 ? "step" : "steps");
}

double SplitShare::excess() const {
  return alone.ps == 0 ? 0 : static_cast<double>(own.ps) / static_cast<double>(alone.ps) - 1;
}

std::vector<SplitShare> shares(const SplitReport& report) {
  std::vector<SplitShare> all;
  const SplitCandidate* chosen = report.chosen_one();
  if (report.shared_weights == 0 || chosen == nullptr) return all;
  all.push_back({report.model, report.sizes, chosen->at_sizes, report.plan.own, report.plan.alone});
  for (std::size_t k = 0; k < chosen->with.size(); ++k) {
    const SplitProgram& other = chosen->with[k];
    const split::FoundPlan& plan = report.plan.with.at(k);
    all.push_back({other.model, {other.sizes}, {other.step}, plan.own, plan.alone});
  }
  return all;
}

namespace {

// Returns a table of the predicted times of the programs that were split together; empty without such.
std::string shares_text(const SplitReport& report) {
  std::string text;
  analysis::Time own, alone;
  for (const SplitShare& share : shares(report)) {
    if (text.empty())
      text = fmt::format(
          "\nPrograms with one layout of {} weights, {}\n  {:>14} {:>14} {:>14}  predicted us of all steps: "
          "here, and with "
          "the cheapest plan on this mesh that it would have alone\n",
          report.shared_weights, analysis::format_bytes(report.shared_bytes), "here", "alone",
          "the layout costs");
    text += fmt::format("  {:>14.3f} {:>14.3f} {:>14.2f} %  {}", share.own.us(), share.alone.us(),
                        100 * share.excess(), share.model);
    for (std::size_t k = 0; k < share.steps.size(); ++k)
      text += fmt::format("; {}: {:.3f} us a step simulated", to_string(share.sizes[k]), share.steps[k].us());
    text += "\n";
    own.ps += share.own.ps;
    alone.ps += share.alone.ps;
  }
  if (text.empty()) return text;
  return text + fmt::format("  {:>14.3f} {:>14.3f} {:>14.2f} %  all\n", own.us(), alone.us(),
                            SplitShare{{}, {}, {}, own, alone}.excess() * 100);
}

// The changes of the machine that make another plan the cheapest.
std::string flips_text(const SplitMesh& mesh) {
  std::vector<std::string> changes;
  if (mesh.flips.link_slower > 0)
    changes.push_back(fmt::format("collectives take {:.2f} times as long", mesh.flips.link_slower));
  if (mesh.flips.link_faster > 0)
    changes.push_back(fmt::format("collectives take {:.2f} of the time", mesh.flips.link_faster));
  if (mesh.flips.memory_slower > 0)
    changes.push_back(fmt::format("memory has {:.2f} of its bandwidth", mesh.flips.memory_slower));
  if (mesh.flips.memory_faster > 0)
    changes.push_back(fmt::format("memory has {:.2f} times its bandwidth", mesh.flips.memory_faster));
  if (changes.empty()) return "";
  return fmt::format("  on {} ranks another plan is the cheapest if {}\n", mesh.ranks,
                     fmt::join(changes, ", or "));
}

// Layers, conversions, and operators that are not split.
std::string plan_text(const split::FoundPlan& plan) {
  std::string text = "\nLayers\n";
  for (const split::PlanLayer& layer : plan.layers)
    text += fmt::format(
        "  {:<28} {:>4} of {:>4} nodes split, {:>2} collectives; {:.3f} us computing, {:.3f} us "
        "communicating\n",
        layer.name.empty() ? "(no layer)" : layer.name, layer.split, layer.nodes, layer.collectives,
        layer.compute.us(), layer.communication.us());
  text += "\nConversions\n";
  for (const split::PlanConversion& c : plan.conversions) {
    std::vector<std::string> readers;
    for (const std::string& reader : c.readers)
      readers.push_back(reader.empty() ? "the program's output" : "'" + reader + "'");
    text += fmt::format("  '{}': {} -> {} because {} take{} it so: {}, {:.3f} us\n", c.value, c.from, c.to,
                        fmt::join(readers, ", "), readers.size() == 1 ? "s" : "", c.steps, c.cost.us());
    text.pop_back();
    if (c.otherwise) text += fmt::format("; taken otherwise: {:+.3f} us", c.otherwise->us());
    if (!c.unpriced.empty()) text += fmt::format("; taken otherwise: not priced: {}", c.unpriced);
    text += "\n";
  }
  if (!plan.replicated.empty()) text += "\nReplicated\n";
  for (const split::PlanReplicated& r : plan.replicated)
    text +=
        fmt::format("  {:>4} {:<24} {:>10}  {}\n", r.nodes, r.op, analysis::format_bytes(r.bytes), r.reason);
  return text;
}

}  // namespace

std::string to_string(const SplitReport& report) {
  const SplitCandidate* chosen = report.chosen_one();
  std::string text = "Splits that were tried\n";
  if (report.several_sizes()) text += "  times are those of all steps of these sizes together\n";
  text += fmt::format("  {:>5}  {:<26} {:>14} {:>14}\n", "ranks", "plan", "predicted us", "simulated us");
  for (std::size_t k = 0; k < report.candidates.size(); ++k) {
    const SplitCandidate& c = report.candidates[k];
    const std::string simulated = c.skipped           ? fmt::format("over {:.3f}", c.floor.us())
                                  : c.refused.empty() ? fmt::format("{:.3f}", c.simulated.us())
                                                      : "refused: " + c.refused;
    const std::string predicted = c.predicted.ps == 0 ? "" : fmt::format("{:.3f}", c.predicted.us());
    text += fmt::format("  {:>5}  {:<26} {:>14} {:>14}{}{}\n", c.ranks, c.name, predicted, simulated,
                        c.proved         ? "  search exact"
                        : c.bound.ps > 0 ? fmt::format("  search bound {:.3f} us", c.bound.us())
                                         : "",
                        static_cast<int>(k) == report.chosen ? "  <- chosen" : "");
  }
  for (const SplitMesh& mesh : report.meshes) {
    if (!mesh.excluded.empty()) text += fmt::format("  {:>5}  no candidate: {}\n", mesh.ranks, mesh.excluded);
  }
  if (const int second = report.runner_up(); second >= 0) {
    const SplitCandidate& c = report.candidates[static_cast<std::size_t>(second)];
    text += fmt::format(
        "  runner-up: {}, {}, {:.1f} % longer\n", count_of_ranks(c.ranks), c.name,
        100.0 * static_cast<double>(c.simulated.ps) / static_cast<double>(chosen->simulated.ps) - 100);
  }
  for (const SplitMesh& mesh : report.meshes) text += flips_text(mesh);
  if (chosen != nullptr && report.several_sizes()) {
    for (std::size_t k = 0; k < chosen->at_sizes.size(); ++k)
      text +=
          fmt::format("  at {}: {:.3f} us a step\n", to_string(report.sizes[k]), chosen->at_sizes[k].us());
  }
  text += shares_text(report);
  if (report.lower_bound().ps > 0)
    text += fmt::format(
        "  no plan of these rules on {} is faster than {:.3f} us, in any order: gap "
        "{:.1f} %\n  ({:.3f} us from the loads alone, whatever becomes of its collectives: gap {:.1f} %)\n",
        report.several_axes ? "these meshes" : "one axis of these ranks", report.lower_bound().us(),
        report.gap() * 100, report.load_bound.us(), report.load_gap() * 100);
  if (chosen == nullptr) return text;
  if (chosen->ranks == 1) {
    text += "The model is not split: one device is the fastest of those tried\n";
    return text;
  }
  return text + plan_text(report.plan);
}

}  // namespace braid
