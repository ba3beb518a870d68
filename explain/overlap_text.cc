#include "explain/overlap_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace braid::explain {
namespace {

using namespace analysis;

std::string figures(const char* what, const Measurement& m) {
  return fmt::format(
      "  {:<8} makespan {:>12.3f} us   bound {:>12.3f} us   gap {:>6.2f} %   exposed {:>12.3f} us   live "
      "{:>10}   planned {:>10}\n",
      what, m.makespan.us(), m.bounds.best().us(), 100 * m.gap(), m.exposed.us(), format_bytes(m.live_peak),
      format_bytes(m.planned_bytes));
}

std::string table(const std::vector<CollectiveReport>& collectives) {
  std::size_t name = 10, kernel = 6;
  for (const CollectiveReport& c : collectives) {
    name = std::max(name, c.name.size());
    kernel = std::max(kernel, c.kernel.size());
  }
  std::string out =
      fmt::format("  {:<{}} {:<{}} {:>12} {:>14} {:>12} {:>6}  {}\n", "collective", name, "kernel", kernel,
                  "cost us", "exposed before", "after", "moves", "why not further");
  for (const CollectiveReport& c : collectives) {
    out += fmt::format("  {:<{}} {:<{}} {:>12.3f} {:>14.3f} {:>12.3f} {:>6}  {}\n", c.name, name, c.kernel,
                       kernel, c.cost.us(), c.initial_exposed.us(), c.final_exposed.us(), c.moves,
                       to_string(c.limit));
  }
  return out;
}

nlohmann::ordered_json json_of(const Measurement& m) {
  return {{"makespan_ns", m.makespan.ns()},
          {"bound_ns",
           {{"critical_path", m.bounds.critical_path.ns()},
            {"load", m.bounds.load.ns()},
            {"head_and_tail", m.bounds.head_and_tail.ns()},
            {"contention", m.bounds.contention.ns()},
            {"best", m.bounds.best().ns()}}},
          {"input_bound_ns", m.input_bound.ns()},
          {"gap", m.gap()},
          {"exposed_ns", m.exposed.ns()},
          {"live_peak_bytes", m.live_peak},
          {"planned_bytes", m.planned_bytes}};
}

nlohmann::ordered_json json_of(const std::vector<CollectiveReport>& collectives) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const CollectiveReport& c : collectives) {
    nlohmann::ordered_json limit = {{"reason", std::string(to_string(c.limit.reason))}};
    if (!c.limit.other.empty()) limit["other"] = c.limit.other;
    if (!c.limit.where.empty()) limit["where"] = c.limit.where;
    if (c.limit.reason == LimitReason::memory) {
      limit["step"] = c.limit.step;
      limit["bytes"] = c.limit.bytes;
    }
    out.push_back({{"name", c.name},
                   {"kernel", c.kernel},
                   {"cost_ns", c.cost.ns()},
                   {"initial_exposed_ns", c.initial_exposed.ns()},
                   {"final_exposed_ns", c.final_exposed.ns()},
                   {"moves", c.moves},
                   {"limit", std::move(limit)}});
  }
  return out;
}

}  // namespace

std::string to_text(const OverlapStory& story) {
  std::string out = fmt::format("Communication, simulated on machine {}\n", story.machine);
  if (!story.any_collective) return out + "  no collectives\n";
  for (const OverlapStep& s : story.steps) {
    out += fmt::format("\n  pass {}\n", s.report.pass);
    out += figures("before", s.before) + figures("after", s.after) + table(s.report.collectives);
  }
  if (story.steps.empty()) {
    out += "\n  no pass moved communication\n" + figures("", story.last) + table(story.last.collectives);
  } else {
    out += "\n  all passes\n" + figures("before", story.first) + figures("after", story.last);
  }
  out += fmt::format("  no merging, splitting or other algorithm goes below {:.3f} us\n",
                     story.first.input_bound.us());
  if (!story.kernels.empty()) out += "\n  kernels, with their times in isolation\n" + to_text(story.kernels);
  return out;
}

std::string to_json(const OverlapStory& story) {
  nlohmann::ordered_json passes = nlohmann::ordered_json::array();
  for (const OverlapStep& s : story.steps) {
    passes.push_back({{"pass", s.report.pass},
                      {"before", json_of(s.before)},
                      {"after", json_of(s.after)},
                      {"collectives", json_of(s.report.collectives)}});
  }
  const nlohmann::ordered_json all = {{"version", 1},
                                      {"machine", story.machine},
                                      {"before", json_of(story.first)},
                                      {"after", json_of(story.last)},
                                      {"collectives", json_of(story.last.collectives)},
                                      {"kernels", to_json(story.kernels)},
                                      {"passes", std::move(passes)}};
  return all.dump(1) + "\n";
}

std::string chrome_trace(const std::vector<std::pair<std::string, const TimelineView*>>& views) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  int process = 0;
  for (const auto& [name, view] : views) {
    events.push_back({{"ph", "M"}, {"pid", process}, {"name", "process_name"}, {"args", {{"name", name}}}});
    for (std::size_t lane = 0; lane < view->lanes.size(); ++lane) {
      events.push_back({{"ph", "M"},
                        {"pid", process},
                        {"tid", lane},
                        {"name", "thread_name"},
                        {"args", {{"name", view->lanes[lane]}}}});
    }
    for (const Span& s : view->spans) {
      events.push_back({{"ph", "X"},
                        {"pid", process},
                        {"tid", s.lane},
                        {"name", s.name},
                        {"cat", s.blocked     ? "wait"
                                : s.lane == 0 ? "kernel"
                                              : "collective"},
                        {"ts", s.begin.us()},
                        {"dur", (s.end - s.begin).us()},
                        {"args", {{"what", s.label}}}});
    }
    for (const auto& [time, bytes] : view->live) {
      events.push_back({{"ph", "C"},
                        {"pid", process},
                        {"name", "live bytes"},
                        {"ts", time.us()},
                        {"args", {{"bytes", bytes}}}});
    }
    ++process;
  }
  const nlohmann::ordered_json all = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return all.dump() + "\n";
}

}  // namespace braid::explain
