#include "passes/kernel_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/costs/machine.h"
#include "analysis/measure.h"

namespace braid::passes {
namespace {

using namespace analysis;

bool left_to_engine(const KernelChoice& c) { return c.kernel.empty() || c.kernel == "automatic"; }

}  // namespace

CommEngine engine_of(const Machine& machine) {
  switch (machine.collectives.model) {
    case CollectiveModelKind::shared_memory:
    case CollectiveModelKind::paced_link:
      return CommEngine::shared_memory;
    case CollectiveModelKind::nccl:
    case CollectiveModelKind::inductor:
    case CollectiveModelKind::classic:
      break;
  }
  return CommEngine::nccl;
}

std::string_view to_string(KernelReason reason) {
  static constexpr std::string_view kNames[] = {"program", "forced",     "cheapest",      "size_dependent",
                                                "equal",   "only_one",   "rule",          "left",
                                                "alone",   "fixed_cost", "foreign_costs", "outside"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::string kernel_text(const KernelChoice& c) {
  std::string text = left_to_engine(c) ? "engine's choice" : c.kernel;
  if (c.blocking) text += ", blocking";
  return text;
}

std::string reason_text(const KernelChoice& c) {
  std::string text(to_string(c.reason));
  if (!c.detail.empty()) text += ": " + c.detail;
  return text;
}

std::string to_text(std::span<const KernelChoice> choices) {
  if (choices.empty()) return {};
  std::size_t name = 10, kind = 4, kernel = 6;
  for (const KernelChoice& c : choices) {
    name = std::max(name, c.name.size());
    kind = std::max(kind, ir::to_string(c.kind).size() + c.group.size() + 2);
    kernel = std::max(kernel, kernel_text(c).size());
  }
  std::string out = fmt::format("  {:<{}} {:<{}} {:>10} {:<{}} {:>12}  {}\n", "collective", name, "of", kind,
                                "payload", "kernel", kernel, "us", "reason");
  for (const KernelChoice& c : choices) {
    out += fmt::format("  {:<{}} {:<{}} {:>10} {:<{}} {:>12.3f}  {}\n", c.name, name,
                       fmt::format("{} @{}", ir::to_string(c.kind), c.group), kind, format_bytes(c.max_bytes),
                       kernel_text(c), kernel, c.us, reason_text(c));
    // With two candidates, the reason already names the other one and its time.
    if (c.reason == KernelReason::cheapest && c.candidates.size() == 2 && c.min_bytes == c.max_bytes)
      continue;
    for (const KernelCandidate& k : c.candidates) {
      out += fmt::format("    {:<{}} {:>{}.3f} us{}{}\n", k.kernel, name, k.us, kind + 7,
                         c.min_bytes < c.max_bytes
                             ? fmt::format(", {:.3f} us at {}", k.us_at_least, format_bytes(c.min_bytes))
                             : "",
                         k.executable ? "" : "   (not of this engine)");
    }
  }
  return out;
}

nlohmann::ordered_json to_json(std::span<const KernelChoice> choices) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const KernelChoice& c : choices) {
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const KernelCandidate& k : c.candidates) {
      candidates.push_back(
          {{"kernel", k.kernel}, {"executable", k.executable}, {"us", k.us}, {"us_at_least", k.us_at_least}});
    }
    out.push_back({{"name", c.name},
                   {"kind", ir::to_string(c.kind)},
                   {"group", c.group},
                   {"origins", c.origins},
                   {"min_bytes", c.min_bytes},
                   {"max_bytes", c.max_bytes},
                   {"kernel", left_to_engine(c) ? "engine" : c.kernel},
                   {"blocking", c.blocking},
                   {"made_blocking", c.made_blocking},
                   {"us", c.us},
                   {"reason", to_string(c.reason)},
                   {"detail", c.detail},
                   {"candidates", std::move(candidates)}});
  }
  return out;
}

}  // namespace braid::passes
