#include "passes/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "analysis/check/check_traces.h"
#include "analysis/order_analysis.h"
#include "ir/collective_order.h"
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

// Holds passes to the order and the agreement of a program's collectives.
class CollectiveWatch {
 public:
  explicit CollectiveWatch(const Schedule& schedule) : order_(schedule) {
    if (!analysis::has_point_to_point(schedule)) return;
    trace_ = collective_trace(schedule, schedule.graph.name);
    proved_ = check::fault_of_all_ranks(*trace_).empty();
  }

  void after(const Pass& pass, const Schedule& schedule) {
    CollectiveOrder order(schedule);
    const std::string change = order_.change(order, pass.may_reorder_collectives());
    internal_check(change.empty(), "pass '{}' {}", pass.name(), change);
    order_ = std::move(order);
    if (!proved_) return;
    CollectiveTrace trace = collective_trace(schedule, schedule.graph.name);
    const bool same = trace.channels == trace_->channels && trace.events == trace_->events;
    const std::string found = same ? std::string() : check::fault_of_all_ranks(trace);
    internal_check(found.empty(), "after pass '{}' the ranks do not fit together any more: {}", pass.name(),
                   found);
    trace_ = std::move(trace);
  }

 private:
  CollectiveOrder order_;
  std::optional<CollectiveTrace> trace_;  // of a program with sends or receives
  bool proved_ = false;                   // false as well where each rank runs another program
};

}  // namespace

std::vector<PassRecord> run_passes(Schedule& schedule, std::span<const Pass> passes,
                                   const RunOptions& options) {
  check_names(passes, options.disable, false);
  check_names(passes, options.print_after, true);
  std::vector<PassRecord> records;
  std::optional<PassContext> own;
  PassContext& context = options.context != nullptr ? *options.context : own.emplace();
  // Otherwise the first pass would be blamed for what came in.
  if (options.verify) ir::check(schedule, "none (the schedule as it came in)");
  std::optional<CollectiveWatch> collectives;
  if (options.verify) collectives.emplace(schedule);
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
        ir::check(schedule, pass.name());
        collectives->after(pass, schedule);
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
  for (const std::string& name : options.print_after) {
    const bool ran =
        name == "all" ? !passes.empty() : std::ranges::find(passes, name, &Pass::name) != passes.end();
    if (options.print && !ran)
      options.print(name == "all" ? std::string("// the pass list is empty\n")
                                  : fmt::format("// {} is not in the pass list\n", name));
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
