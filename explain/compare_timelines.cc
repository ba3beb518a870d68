#include "explain/compare_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace braid::explain {
namespace {

using namespace analysis;

// The parts of one rank's time.
struct Sums {
  Time kernels, calls, transfer, skew;
};

struct Blocked {
  Time calls, transfer, skew;  // of the rank with the largest of each
};

void names_of(const ir::Graph& graph, const ir::ScheduleNode& node, std::vector<std::string>& out) {
  if (node.kind == ir::ScheduleNode::Kind::grouped) {
    for (const ir::ScheduleNode& m : node.members) names_of(graph, m, out);
  } else {
    out.push_back(node.kind == ir::ScheduleNode::Kind::single ? graph[node.op].name : node.name);
  }
}

// The first place where the nodes that both have stand in another order.
std::optional<std::pair<std::string, std::string>> first_difference(const ir::Schedule& schedule,
                                                                    const MeasuredTimeline& measured) {
  std::vector<std::string> mine, its;
  for (const ir::ScheduleNode& n : schedule.nodes) names_of(schedule.graph, n, mine);
  for (const MeasuredNode& n : measured.nodes) its.push_back(n.name);
  const std::set<std::string> in_mine(mine.begin(), mine.end()), in_its(its.begin(), its.end());
  std::erase_if(mine, [&](const std::string& n) { return !in_its.contains(n); });
  std::erase_if(its, [&](const std::string& n) { return !in_mine.contains(n); });
  const auto [a, b] = std::mismatch(mine.begin(), mine.end(), its.begin(), its.end());
  if (a == mine.end() || b == its.end()) return std::nullopt;
  return std::pair{*a, *b};
}

int missing(const ir::Schedule& schedule, const MeasuredTimeline& measured) {
  std::vector<std::string> mine;
  for (const ir::ScheduleNode& n : schedule.nodes) names_of(schedule.graph, n, mine);
  std::set<std::string> its;
  for (const MeasuredNode& n : measured.nodes) its.insert(n.name);
  return static_cast<int>(
      std::count_if(mine.begin(), mine.end(), [&](const std::string& n) { return !its.contains(n); }));
}

// Times of each rank and, by name, of collectives.
struct Measured {
  std::vector<Sums> ranks;
  std::map<std::string, Blocked> collectives;
};

Measured times_of(const MeasuredTimeline& measured, const StepTimes& step) {
  Measured out{std::vector<Sums>(step.size()), {}};
  for (std::size_t rank = 0; rank < step.size(); ++rank) {
    for (std::size_t n = 0; n < measured.nodes.size(); ++n) {
      const MeasuredNode& node = measured.nodes[n];
      const NodeSplit s = split(measured, step, static_cast<int>(rank), static_cast<int>(n));
      (node.kind == MeasuredKind::kernel ? out.ranks[rank].kernels : out.ranks[rank].calls) += s.work;
      out.ranks[rank].transfer += s.transfer;
      out.ranks[rank].skew += s.skew;
      if (node.collective < 0) continue;
      Blocked& c = out.collectives[measured.collectives[node.collective].name];
      c.calls = std::max(c.calls, s.work);
      c.skew = std::max(c.skew, s.skew);
    }
    const std::vector<Time> exposed = exposed_on_link(measured, step, static_cast<int>(rank));
    for (std::size_t c = 0; c < exposed.size(); ++c) {
      Time& most = out.collectives[measured.collectives[c].name].transfer;
      most = std::max(most, exposed[c]);
    }
  }
  return out;
}

Sums simulated_times(const OverlapStory& story, const MeasuredTimeline& measured) {
  Time kernels, calls;
  for (const Span& s : story.last_view.spans) {
    if (s.lane != 0 || s.blocked) continue;
    const bool call = std::any_of(measured.nodes.begin(), measured.nodes.end(), [&](const MeasuredNode& n) {
      return n.name == s.name && n.kind != MeasuredKind::kernel;
    });
    (call ? calls : kernels) += s.end - s.begin;
  }
  return {kernels, calls, story.last.exposed, {}};
}

std::string collective_rows(const OverlapStory& story, const std::map<std::string, Blocked>& collectives) {
  std::string out;
  if (story.last.collectives.empty()) return out;
  std::size_t name = 10, kernel = 6;
  for (const CollectiveReport& c : story.last.collectives) {
    name = std::max(name, c.name.size());
    kernel = std::max(kernel, c.kernel.size());
  }
  out += fmt::format("\n  {:<{}} {:<{}} {:>10} {:>18} {:>17} {:>10} {:>10}\n", "collective", name, "kernel",
                     kernel, "cost us", "exposed simulated", "exposed measured", "skew", "calls");
  for (const CollectiveReport& c : story.last.collectives) {
    out += fmt::format("  {:<{}} {:<{}} {:>10.3f} {:>18.3f}", c.name, name, c.kernel, kernel, c.cost.us(),
                       c.final_exposed.us());
    const auto found = collectives.find(c.name);
    out += found == collectives.end()
               ? fmt::format(" {:>17}\n", "not measured")
               : fmt::format(" {:>17.3f} {:>10.3f} {:>10.3f}\n", found->second.transfer.us(),
                             found->second.skew.us(), found->second.calls.us());
  }
  return out;
}

}  // namespace

std::string compare(const OverlapStory& story, const ir::Schedule& schedule,
                    const MeasuredTimeline& measured) {
  const StepTimes& step = measured.steps[median_step(measured)];
  const Measured times = times_of(measured, step);
  std::string out = fmt::format("Measured beside simulated: program {}, {} ranks{}\n", measured.program,
                                step.size(), measured.link.empty() ? "" : ", link " + measured.link);
  const Time real = makespan(step);
  out +=
      fmt::format("  makespan: measured {:.3f} us, simulated {:.3f} us", real.us(), story.last.makespan.us());
  if (story.last.makespan.ps > 0) {
    out += fmt::format(", ratio {:.3f}",
                       static_cast<double>(real.ps) / static_cast<double>(story.last.makespan.ps));
  }
  out += fmt::format("\n  {:<10} {:>14} {:>22} {:>18} {:>18}\n", "", "kernels us", "calls of engine us",
                     "blocked: link us", "blocked: skew us");
  const auto line = [&](const std::string& name, const Sums& s) {
    out += fmt::format("  {:<10} {:>14.3f} {:>22.3f} {:>18.3f} {:>18.3f}\n", name, s.kernels.us(),
                       s.calls.us(), s.transfer.us(), s.skew.us());
  };
  line("simulated", simulated_times(story, measured));
  for (std::size_t rank = 0; rank < step.size(); ++rank)
    line(fmt::format("rank {}", rank), times.ranks[rank]);

  if (const int count = missing(schedule, measured); count > 0) {
    out += fmt::format(
        "  {} of the schedule's nodes were not measured: the timeline is of another program or another "
        "compilation\n",
        count);
  }
  if (const auto difference = first_difference(schedule, measured)) {
    out += fmt::format("  the measured program ran in another order: '{}' where the schedule has '{}'\n",
                       difference->second, difference->first);
  }
  return out + collective_rows(story, times.collectives);
}

}  // namespace braid::explain
