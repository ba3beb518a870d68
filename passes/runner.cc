#include "passes/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace ir;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool is_listed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(std::span<const Pass> passes, const std::vector<std::string>& names, bool all_allowed) {
  for (const std::string& name : names) {
    if (all_allowed && name == "all") continue;
    const bool in_list =
        std::any_of(passes.begin(), passes.end(), [&](const Pass& p) { return p.name() == name; });
    if (!in_list) pass_registry().make(name);  // throws the error that lists the known ones
  }
}

void collect_starts(const Graph& graph, OpId op, std::map<std::string, std::vector<std::string>>& out) {
  if (const auto* c = graph[op].as<CollectiveKernel>()) out[graph[c->group].name].push_back(graph[op].name);
  if (const auto* region = graph[op].as<RegionKernel>()) {
    for (const Region& r : region->regions) {
      for (OpId inner : r.ops) collect_starts(graph, inner, out);
    }
  }
}

}  // namespace

std::map<std::string, std::vector<std::string>> collective_order(const Schedule& schedule) {
  std::map<std::string, std::vector<std::string>> out;
  for (OpId op : execution_order(schedule)) collect_starts(schedule.graph, op, out);
  return out;
}

std::vector<PassRecord> run_passes(Schedule& schedule, std::span<const Pass> passes,
                                   const RunOptions& options) {
  check_names(passes, options.disable, false);
  check_names(passes, options.print_after, true);
  std::vector<PassRecord> records;
  std::optional<PassContext> own;
  PassContext& context = options.context != nullptr ? *options.context : own.emplace();
  // Otherwise the first pass would be blamed for what came in.
  if (options.verify) check(schedule, "none (the schedule as it came in)");
  auto order = options.verify ? collective_order(schedule) : decltype(collective_order(schedule)){};
  for (std::size_t k = 0; k < passes.size(); ++k) {
    const Pass& pass = passes[k];
    PassRecord record{pass.name()};
    if (is_listed(options.disable, pass.name())) {
      record.outcome = PassRecord::Outcome::disabled;
    } else if (options.bisect && static_cast<int>(k) >= *options.bisect) {
      record.outcome = PassRecord::Outcome::bisected;
    } else {
      const std::string before = options.check_unchanged ? print(schedule) : std::string();
      const std::optional<Schedule> copy = options.observers.empty() ? std::nullopt : std::optional(schedule);
      const std::size_t reports = context.reports.size();
      const Clock::time_point begin = Clock::now();
      const auto analysis = context.analysis;
      const bool changed = pass.run(schedule, context);
      if (changed && context.analysis == analysis) context.analysis.reset();
      record.outcome = changed ? PassRecord::Outcome::changed : PassRecord::Outcome::unchanged;
      record.seconds = seconds_since(begin);
      const Clock::time_point verify_begin = Clock::now();
      if (options.verify) {
        check(schedule, pass.name());
        auto order_now = collective_order(schedule);
        internal_check(pass.may_reorder_collectives() || order_now == order,
                       "pass '{}' changed the order of collectives without being allowed to", pass.name());
        order = std::move(order_now);
      }
      if (options.check_unchanged && !changed) {
        internal_check(print(schedule) == before, "pass '{}' changed the schedule and said that it did not",
                       pass.name());
      }
      record.verify_seconds = seconds_since(verify_begin);
      for (const auto& observer : options.observers)
        observer({pass, *copy, schedule, changed, context.reports.size() > reports, context});
    }
    if (options.print &&
        (is_listed(options.print_after, pass.name()) || is_listed(options.print_after, "all"))) {
      const bool changed = record.outcome == PassRecord::Outcome::changed;
      options.print(fmt::format("// after {}{}\n{}", pass.name(), changed ? "" : " (unchanged)",
                                changed ? print(schedule) : std::string()));
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::string to_string(std::span<const PassRecord> records) {
  std::string out;
  for (std::size_t k = 0; k < records.size(); ++k) {
    const PassRecord& r = records[k];
    const char* remark = "";
    switch (r.outcome) {
      case PassRecord::Outcome::changed:
        break;
      case PassRecord::Outcome::unchanged:
        remark = "  (unchanged)";
        break;
      case PassRecord::Outcome::disabled:
        remark = "  (disabled)";
        break;
      case PassRecord::Outcome::bisected:
        remark = "  (not run: bisect)";
        break;
    }
    out += fmt::format("{:3}  {:<20} {:9.3f} ms  checks {:9.3f} ms{}\n", k + 1, r.name, r.seconds * 1e3,
                       r.verify_seconds * 1e3, remark);
  }
  return out;
}

std::string list_passes(const PassRegistry& registry) {
  std::string out;
  for (const Pass& pass : registry.all()) {
    out += fmt::format("{:<20} {}\n", pass.name(), pass.description());
    for (const OptionInfo& o : pass.options()) {
      out += fmt::format("    {:<24} {}\n", o.name + "=" + o.default_value, o.help);
    }
  }
  return out;
}

}  // namespace braid::passes
