#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "passes/pipeline/ideal_timeline.h"
#include "passes/pipeline/text.h"

namespace braid::pipeline {
namespace {

// Whether the rank tells the stage.
bool one_stage_per_rank(const Schedule& s) {
  std::vector<bool> seen(s.rows.size());
  for (const std::int32_t rank : s.rank_of_stage) {
    if (seen[static_cast<std::size_t>(rank)]) return false;
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return true;
}

std::string label(Action a, bool stage) {
  std::string text = stage ? fmt::format("{}", a.stage) : "";
  text += kind_name(a.kind);
  return text + fmt::format("{}", a.microbatch);
}

// visit(begin, action, whether a member of the same container follows)
template <class Visit>
void each_computation(const Row& row, const IdealTimeline::Rank& rank, Visit visit) {
  each_cell(row, [&](std::size_t, std::size_t, std::span<const Action> all) {
    for (const Action& a : all) {
      const std::int64_t begin = rank.begin[static_cast<std::size_t>(&a - row.data())];
      if (begin >= 0) visit(begin, a, &a != &all.back());
    }
  });
}

std::string joined(const std::vector<std::int64_t>& values) {
  const bool equal = std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
  if (equal && !values.empty()) return fmt::format("{} on each rank", values[0]);
  return fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace

std::string draw(const Schedule& schedule, const IdealTimeline& timeline, std::int64_t columns) {
  const bool stages = !one_stage_per_rank(schedule);
  const std::int64_t shown = columns > 0 ? std::min(columns, timeline.makespan) : timeline.makespan;
  std::size_t width = 0;
  bool containers = false;
  for (std::size_t r = 0; r < schedule.rows.size(); ++r) {
    each_computation(schedule.rows[r], timeline.ranks[r], [&](std::int64_t begin, Action a, bool more) {
      if (begin < shown) width = std::max(width, label(a, stages).size());
      containers = containers || more;
    });
  }
  width += containers ? 2 : 1;

  std::string text;
  const std::size_t digits = fmt::format("{}", schedule.rows.empty() ? 0 : schedule.rows.size() - 1).size();
  for (std::size_t r = 0; r < schedule.rows.size(); ++r) {
    std::vector<std::string> cells(static_cast<std::size_t>(shown), ".");
    each_computation(schedule.rows[r], timeline.ranks[r], [&](std::int64_t begin, Action a, bool more) {
      if (begin >= shown) return;
      cells[static_cast<std::size_t>(begin)] = label(a, stages) + (more ? "+" : "");
      if (a.kind == ActionKind::full_backward && begin + 1 < shown) {
        cells[static_cast<std::size_t>(begin) + 1] = std::string(width - (containers ? 2 : 1), '-');
      }
    });
    std::string line = fmt::format("rank {:<{}}  ", r, digits);
    for (const std::string& cell : cells) line += fmt::format("{:<{}}", cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + (shown < timeline.makespan ? " ..." : "") + '\n';
  }
  return text;
}

std::string summary(const IdealTimeline& timeline) {
  std::vector<std::int64_t> idle, peak;
  std::int64_t lost = 0;
  for (const IdealTimeline::Rank& rank : timeline.ranks) {
    idle.push_back(timeline.makespan - rank.work);
    peak.push_back(rank.peak_activations);
    lost += idle.back();
  }
  const std::int64_t all = timeline.makespan * static_cast<std::int64_t>(timeline.ranks.size());
  return fmt::format("makespan {}, idle {} ({:.1f} %), peak activations {}", timeline.makespan, joined(idle),
                     all == 0 ? 0.0 : 100.0 * static_cast<double>(lost) / static_cast<double>(all),
                     joined(peak));
}

}  // namespace braid::pipeline
