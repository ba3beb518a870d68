#include "passes/overlap/measured_timeline.h"

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace braid::passes {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }
Time ns(std::int64_t t) { return {t * 1000}; }

int rank_count(const MeasuredTimeline& t) { return static_cast<int>(t.steps.front().size()); }
int node_count(const MeasuredTimeline& t) { return static_cast<int>(t.nodes.size()); }

// When the last member of its group started the collective; 0 where the other ends are unknown.
std::int64_t last_start(const MeasuredTimeline& t, const StepTimes& step, int collective) {
  const MeasuredCollective& c = t.collectives[at(collective)];
  if (c.paired) return 0;
  std::int64_t last = 0;
  for (int n = 0; n < node_count(t); ++n) {
    const MeasuredNode& node = t.nodes[at(n)];
    if (node.collective != collective ||
        (node.kind != MeasuredKind::start && node.kind != MeasuredKind::blocking)) {
      continue;
    }
    for (int rank : t.groups[at(c.group)].ranks) last = std::max(last, step[at(rank)][at(n)].begin);
  }
  return last;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_member(const MeasuredTimeline& t, const MeasuredNode& node, int rank) {
  if (node.collective < 0) return true;
  const std::vector<int>& ranks = t.groups[at(t.collectives[at(node.collective)].group)].ranks;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

NodeSplit split(const MeasuredTimeline& t, const StepTimes& step, int rank, int node) {
  const RankTimes& times = step[at(rank)];
  const std::int64_t begin = times[at(node)].begin, lasted = times[at(node) + 1].begin - begin;
  const MeasuredNode& n = t.nodes[at(node)];
  if (!is_member(t, n, rank) || (n.kind != MeasuredKind::wait && n.kind != MeasuredKind::blocking)) {
    return {ns(lasted), {}, {}};
  }
  const std::int64_t skew = std::clamp<std::int64_t>(last_start(t, step, n.collective) - begin, 0, lasted);
  const std::int64_t transfer = std::min(times[at(node)].slept, lasted - skew);
  return {ns(lasted - skew - transfer), ns(transfer), ns(skew)};
}

Time makespan(const StepTimes& step) {
  std::int64_t begin = 0, end = 0;
  for (const RankTimes& r : step) {
    begin = std::max(begin, r.front().begin);
    end = std::max(end, r.back().begin);
  }
  return ns(end - begin);
}

std::size_t median_step(const MeasuredTimeline& t) {
  std::vector<std::size_t> order(t.steps.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return makespan(t.steps[a]) < makespan(t.steps[b]); });
  return order[order.size() / 2];
}

std::vector<std::pair<std::string, TimelineView>> views(const MeasuredTimeline& t) {
  const StepTimes& step = t.steps[median_step(t)];
  std::vector<std::pair<std::string, TimelineView>> all;
  for (int rank = 0; rank < rank_count(t); ++rank) {
    const RankTimes& times = step[at(rank)];
    TimelineView view;
    view.lanes = {"compute"};
    for (const MeasuredGroup& g : t.groups) view.lanes.push_back("@" + g.name);
    view.makespan = ns(times.back().begin);
    std::map<int, std::int64_t> issued, free;  // by collective; by group
    for (int n = 0; n < node_count(t); ++n) {
      const MeasuredNode& node = t.nodes[at(n)];
      if (!is_member(t, node, rank)) continue;
      const std::int64_t begin = times[at(n)].begin, end = times[at(n) + 1].begin;
      const bool waits = node.kind == MeasuredKind::wait || node.kind == MeasuredKind::blocking;
      if (begin < end) view.spans.push_back({node.name, node.label, 0, ns(begin), ns(end), waits});
      if (node.kind == MeasuredKind::start || node.kind == MeasuredKind::blocking)
        issued[node.collective] = begin;
      if (!waits || !issued.contains(node.collective)) continue;
      // On the link from when all had started it and its predecessor was through.
      const MeasuredCollective& c = t.collectives[at(node.collective)];
      const std::int64_t until = times[at(n)].due > 0 ? times[at(n)].due : end;
      const std::int64_t from =
          std::max({issued[node.collective], last_start(t, step, node.collective), free[c.group]});
      if (from < until) view.spans.push_back({c.name, c.kernel, c.group + 1, ns(from), ns(until), false});
      free[c.group] = std::max(free[c.group], until);
    }
    all.emplace_back("rank " + std::to_string(rank), std::move(view));
  }
  return all;
}

CostEntries measured_costs(const MeasuredTimeline& t) {
  CostEntries entries;
  for (int n = 0; n < node_count(t); ++n) {
    const MeasuredNode& node = t.nodes[at(n)];
    if (node.kind != MeasuredKind::kernel && (t.link.empty() || node.kind == MeasuredKind::blocking))
      continue;
    std::vector<std::int64_t> samples;
    for (const StepTimes& step : t.steps) {
      for (int rank = 0; rank < rank_count(t); ++rank) {
        if (is_member(t, node, rank)) samples.push_back(split(t, step, rank, n).work.ps / 1000);
      }
    }
    if (samples.empty()) continue;
    const std::string key = node.kind == MeasuredKind::start ? node.name + ".issue" : node.name;
    entries[key] = static_cast<double>(median(std::move(samples)));
  }
  return entries;
}

}  // namespace braid::passes
